//! The annotated function, taken apart.

mod argument;
mod borrow;
mod boxed;

use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use syn::parse::{Parse, ParseStream};
use syn::token::Brace;
use syn::visit::{self, Visit};
use syn::{Attribute, FnArg, GenericParam, ReturnType, Signature, Token, Type, Visibility, braced};

pub(crate) use argument::Argument;
pub(crate) use borrow::Borrow;
pub(crate) use boxed::Boxed;

use crate::flavour::Flavour;

/// A function whose body is kept as it was written, so that a body that does not parse yet harms nobody.
pub(crate) struct Function {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) inner_attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    pub(crate) brace: Brace,
    pub(crate) body: TokenStream,
    /// The arguments but for `self`, in order.
    pub(crate) arguments: Vec<Argument>,
    /// Set where `#[async_trait]` has boxed the body already.
    pub(crate) boxed: Option<Boxed>,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        let sig: Signature = input.parse()?;
        if input.peek(Token![;]) {
            let message = "a function without a body has nothing to run once; annotate the implementation";
            return Err(syn::Error::new(sig.ident.span(), message));
        }
        let content;
        let brace = braced!(content in input);
        let inner_attrs = content.call(Attribute::parse_inner)?;
        let body: TokenStream = content.parse()?;
        let mut boxed = if sig.asyncness.is_none() { Boxed::find(&sig, &body) } else { None };
        let arguments = sig
            .inputs
            .iter()
            .enumerate()
            .filter_map(|(position, input)| match input {
                FnArg::Typed(typed) => Some(Argument::new(position, typed, boxed.as_mut())),
                FnArg::Receiver(_) => None,
            })
            .collect();
        Ok(Self { attrs, inner_attrs, vis, sig, brace, body, arguments, boxed })
    }
}

impl Function {
    /// The type that the body ends with; `None` if nothing was declared.
    pub(crate) fn output(&self) -> Option<&Type> {
        match (&self.boxed, &self.sig.output) {
            (Some(boxed), _) => Some(&boxed.output),
            (None, ReturnType::Type(_, ty)) => Some(ty),
            (None, ReturnType::Default) => None,
        }
    }

    /// What the body borrows from the caller, as far as the signature tells: such a function runs in place.
    pub(crate) fn borrow(&self, flavour: Flavour) -> Option<Borrow> {
        Borrow::find(self, flavour)
    }

    /// Whether it has a receiver, or says `Self` in its signature or body.
    pub(crate) fn is_method(&self) -> bool {
        self.sig.receiver().is_some() || self.uses().self_type || mentions_self(self.body.clone())
    }

    fn uses(&self) -> Uses {
        let mut uses = Uses::default();
        uses.visit_signature(&self.sig);
        uses
    }

    /// Why `module_path!()` and the function's name do not tell this function from all others.
    pub(crate) fn ambiguity(&self) -> Option<&'static str> {
        let uses = self.uses();
        if self.is_method() {
            return Some("two types can have a method of this name");
        }
        let generic = |param: &GenericParam| !matches!(param, GenericParam::Lifetime(_));
        if self.sig.generics.params.iter().any(generic) || uses.impl_trait {
            return Some("a generic function is many functions");
        }
        None
    }

    /// The function's name without `r#`.
    pub(crate) fn name(&self) -> String {
        use syn::ext::IdentExt;
        self.sig.ident.unraw().to_string()
    }

    /// All names that the arguments bind.
    pub(crate) fn bindings(&self) -> impl Iterator<Item = &Ident> {
        self.arguments.iter().flat_map(|argument| argument.bindings.iter().map(|binding| &binding.ident))
    }
}

impl ToTokens for Function {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let Self { attrs, inner_attrs, vis, sig, brace, body, .. } = self;
        for attr in attrs {
            attr.to_tokens(tokens);
        }
        vis.to_tokens(tokens);
        sig.to_tokens(tokens);
        brace.surround(tokens, |tokens| {
            for attr in inner_attrs {
                attr.to_tokens(tokens);
            }
            body.to_tokens(tokens);
        });
    }
}

/// What to say where no function was found.
pub(crate) fn no_function(item: &TokenStream, error: syn::Error) -> syn::Error {
    let keyword = item.clone().into_iter().find_map(|token| match token {
        proc_macro2::TokenTree::Ident(ident)
            if ["impl", "trait", "struct", "enum", "mod", "union"].iter().any(|word| ident == word) =>
        {
            Some(Some(ident))
        }
        // Past a `fn` there is a function, and its own error says more.
        proc_macro2::TokenTree::Ident(ident) if ident == "fn" => Some(None),
        _ => None,
    });
    match keyword.flatten() {
        Some(keyword) if keyword == "impl" || keyword == "trait" => {
            syn::Error::new(keyword.span(), "annotate the async functions inside, one by one")
        }
        Some(keyword) => syn::Error::new(keyword.span(), "only an `async fn` can be made idempotent"),
        None => error,
    }
}

#[derive(Default)]
struct Uses {
    self_type: bool,
    impl_trait: bool,
}

impl<'ast> Visit<'ast> for Uses {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.self_type |= path.segments.first().is_some_and(|first| first.ident == "Self");
        visit::visit_path(self, path);
    }

    fn visit_return_type(&mut self, output: &'ast ReturnType) {
        let in_arguments = self.impl_trait;
        visit::visit_return_type(self, output);
        self.impl_trait = in_arguments;
    }

    fn visit_type_impl_trait(&mut self, ty: &'ast syn::TypeImplTrait) {
        self.impl_trait = true;
        visit::visit_type_impl_trait(self, ty);
    }
}

/// Whether tokens say `Self`, outside of items that have a `Self` of their own.
fn mentions_self(tokens: TokenStream) -> bool {
    let mut of_its_own = false;
    for token in tokens {
        match token {
            proc_macro2::TokenTree::Ident(ident) if ident == "Self" => return true,
            proc_macro2::TokenTree::Ident(ident)
                if ident == "impl" || ident == "trait" || ident == "struct" =>
            {
                of_its_own = true;
            }
            // A struct without fields ends here.
            proc_macro2::TokenTree::Punct(punct) if punct.as_char() == ';' => of_its_own = false,
            proc_macro2::TokenTree::Group(group) => {
                if !of_its_own && mentions_self(group.stream()) {
                    return true;
                }
                if group.delimiter() == proc_macro2::Delimiter::Brace {
                    of_its_own = false;
                }
            }
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests;
