//! Tells from the signature whether a function borrows from its caller.
//!
//! Only the syntax can be asked: whether a type is `'static` is not settled when the attribute expands.

use std::collections::HashSet;

use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use syn::visit::{self, Visit};
use syn::{GenericParam, Lifetime, ReceiverKind, Type, TypeParamBound, WherePredicate};

use super::Function;
use crate::flavour::Flavour;

/// Something that the function borrows.
#[derive(Debug)]
pub(crate) struct Borrow {
    /// What borrows, as it is written.
    pub(crate) tokens: TokenStream,
    /// Whether it is certain: an `impl Trait` may or may not borrow.
    pub(crate) certain: bool,
}

impl Borrow {
    /// The first thing that the arguments borrow, or may borrow.
    ///
    /// Handlers own what their extractors make, so that in the HTTP flavour type parameters are taken to be owned.
    pub(crate) fn find(function: &Function, flavour: Flavour) -> Option<Self> {
        if function.boxed.is_some() {
            return Some(Self { tokens: function.sig.ident.to_token_stream(), certain: true });
        }
        let mut search = Search { found: None, may_borrow: HashSet::new(), flavour };
        if flavour == Flavour::Plain {
            search.may_borrow = unbounded(&function.sig.generics);
        }
        if let Some(receiver) = function.sig.receiver() {
            match &receiver.kind {
                ReceiverKind::Reference(..) => search.note(receiver, true),
                ReceiverKind::Typed(_, ty) => search.visit_type(ty),
                _ => {}
            }
        }
        for argument in &function.arguments {
            if argument.bindings.iter().any(|binding| binding.by_ref) {
                search.note(&argument.pat, true);
            }
            search.visit_type(&argument.ty);
        }
        search.found
    }
}

/// The type parameters that are not said to be `'static`.
fn unbounded(generics: &syn::Generics) -> HashSet<Ident> {
    let mut params = HashSet::new();
    for param in &generics.params {
        if let GenericParam::Type(param) = param
            && !param.bounds.iter().any(is_static)
        {
            params.insert(param.ident.clone());
        }
    }
    for predicate in generics.where_clause.iter().flat_map(|clause| &clause.predicates) {
        if let WherePredicate::Type(predicate) = predicate
            && let Type::Path(path) = &predicate.bounded_ty
            && let Some(ident) = path.path.get_ident()
            && predicate.bounds.iter().any(is_static)
        {
            params.remove(ident);
        }
    }
    params
}

fn is_static(bound: &TypeParamBound) -> bool {
    matches!(bound, TypeParamBound::Lifetime(lifetime) if lifetime.ident == "static")
}

struct Search {
    found: Option<Borrow>,
    may_borrow: HashSet<Ident>,
    flavour: Flavour,
}

impl Search {
    fn note(&mut self, tokens: &impl ToTokens, certain: bool) {
        match &self.found {
            Some(found) if found.certain || !certain => {}
            _ => self.found = Some(Borrow { tokens: tokens.to_token_stream(), certain }),
        }
    }
}

impl<'ast> Visit<'ast> for Search {
    fn visit_type_reference(&mut self, ty: &'ast syn::TypeReference) {
        if ty.lifetime.as_ref().is_none_or(|lifetime| lifetime.ident != "static") {
            self.note(ty, true);
        }
        visit::visit_type_reference(self, ty);
    }

    fn visit_lifetime(&mut self, lifetime: &'ast Lifetime) {
        if lifetime.ident != "static" {
            self.note(lifetime, true);
        }
    }

    fn visit_type_impl_trait(&mut self, ty: &'ast syn::TypeImplTrait) {
        if self.flavour == Flavour::Plain && !ty.bounds.iter().any(is_static) {
            self.note(ty, false);
        }
        visit::visit_type_impl_trait(self, ty);
    }

    fn visit_type_path(&mut self, ty: &'ast syn::TypePath) {
        if let Some(first) = ty.path.segments.first()
            && self.may_borrow.contains(&first.ident)
        {
            self.note(ty, false);
        }
        visit::visit_type_path(self, ty);
    }

    // What `fn(&T)` and `dyn Fn(&T)` take is borrowed from whoever calls them.
    fn visit_type_fn_ptr(&mut self, _: &'ast syn::TypeFnPtr) {}
    fn visit_parenthesized_generic_arguments(&mut self, _: &'ast syn::ParenthesizedGenericArguments) {}
    fn visit_bound_lifetimes(&mut self, _: &'ast syn::BoundLifetimes) {}
    fn visit_expr(&mut self, _: &'ast syn::Expr) {}
}
