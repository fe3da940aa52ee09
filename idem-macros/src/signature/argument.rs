//! One argument of the annotated function: its pattern, its type, and the names it binds.

use proc_macro2::{Ident, Span};
use syn::ext::IdentExt;
use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, Pat, PatIdent, PatType, Token, Type};

use super::Boxed;

/// An argument.
pub(crate) struct Argument {
    /// Its place among the inputs of the signature.
    pub(crate) position: usize,
    /// The `cfg` attributes; what is generated for the argument carries them too.
    pub(crate) cfg: Vec<Attribute>,
    /// The pattern as the user wrote it.
    pub(crate) pat: Pat,
    pub(crate) ty: Type,
    /// The identifier that stands in the generated signature.
    pub(crate) param: Ident,
    /// What the pattern binds, in order.
    pub(crate) bindings: Vec<Binding>,
    /// Whether the body takes the argument over by itself (`#[async_trait]` writes `let x = x;`).
    pub(crate) taken: bool,
}

/// A name bound by a pattern.
#[derive(Clone)]
pub(crate) struct Binding {
    pub(crate) ident: Ident,
    pub(crate) mutability: Option<Token![mut]>,
    pub(crate) by_ref: bool,
}

impl Argument {
    pub(crate) fn new(position: usize, typed: &PatType, boxed: Option<&mut Boxed>) -> Self {
        let mut pat = (*typed.pat).clone();
        let mut taken = false;
        if let Some(boxed) = boxed
            && let Pat::Ident(PatIdent { ident, .. }) = &pat
        {
            match boxed.take_pattern(ident) {
                Some(original) => {
                    let param = ident.clone();
                    let bindings = bindings(&original);
                    return Self {
                        position,
                        cfg: cfg(typed),
                        pat: original,
                        ty: (*typed.ty).clone(),
                        param,
                        bindings,
                        taken: false,
                    };
                }
                None => taken = true,
            }
        }
        // A pattern that came through `macro_rules!` or stands in parentheses.
        while let Pat::Paren(inner) = pat {
            pat = *inner.pat;
        }
        let bindings = bindings(&pat);
        let param = match &pat {
            pat if is_plain(pat) => bindings[0].ident.clone(),
            _ => match bindings.first() {
                Some(first) => Ident::new(&first.ident.unraw().to_string(), own(first.ident.span())),
                None => Ident::new(&format!("__idem_arg_{position}"), Span::mixed_site()),
            },
        };
        Self { position, cfg: cfg(typed), pat, ty: (*typed.ty).clone(), param, bindings, taken }
    }

    /// Whether the pattern is one name, with or without `mut`.
    pub(crate) fn is_plain(&self) -> bool {
        is_plain(&self.pat)
    }

    /// The name that `skip(..)` and the fingerprint know the argument by.
    pub(crate) fn name(&self) -> Option<&Ident> {
        self.bindings.first().map(|binding| &binding.ident)
    }

    /// The pattern for taking the argument apart before the body runs: nothing is changed there, so no `mut`.
    pub(crate) fn pattern_without_mut(&self) -> Pat {
        let mut pat = self.pat.clone();
        WithoutMut.visit_pat_mut(&mut pat);
        pat
    }
}

/// An identifier of the macro's own at a place of the user's.
fn own(span: Span) -> Span {
    Span::mixed_site().located_at(span)
}

fn cfg(typed: &PatType) -> Vec<Attribute> {
    typed.attrs.iter().filter(|attr| attr.path().is_ident("cfg")).cloned().collect()
}

fn is_plain(pat: &Pat) -> bool {
    matches!(pat, Pat::Ident(PatIdent { by_ref: None, subpat: None, .. }))
}

fn bindings(pat: &Pat) -> Vec<Binding> {
    let mut found = Bindings(Vec::new());
    found.visit_pat(pat);
    found.0
}

struct Bindings(Vec<Binding>);

impl<'ast> Visit<'ast> for Bindings {
    fn visit_pat_ident(&mut self, pat: &'ast PatIdent) {
        // In `A(x) | B(x)` a name is bound once.
        if self.0.iter().all(|known| known.ident != pat.ident) {
            let (ident, mutability) = (pat.ident.clone(), pat.mutability);
            self.0.push(Binding { ident, mutability, by_ref: pat.by_ref.is_some() });
        }
        visit::visit_pat_ident(self, pat);
    }

    fn visit_expr(&mut self, _: &'ast syn::Expr) {}
}

struct WithoutMut;

impl VisitMut for WithoutMut {
    fn visit_pat_ident_mut(&mut self, pat: &mut PatIdent) {
        if pat.by_ref.is_none() {
            pat.mutability = None;
        }
        visit_mut::visit_pat_ident_mut(self, pat);
    }

    fn visit_expr_mut(&mut self, _: &mut syn::Expr) {}
}
