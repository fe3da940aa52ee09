//! Handlers of actix-web: all arguments are captured as one tuple, since every extractor may read the body.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{FnArg, Type, parse_quote_spanned};

use super::Framework;
use crate::expand::pieces;
use crate::signature::Function;

/// actix-web.
pub(crate) enum Actix {}

impl Framework for Actix {
    const ROOM: &str = "actix";
    const DETACHED: &str = "_local";

    fn sign(function: &mut Function, captured: &dyn Fn(&Type) -> Type, _: &TokenStream) {
        let here = Span::mixed_site();
        let types = function.arguments.iter().map(|argument| &argument.ty);
        let captured = captured(&parse_quote_spanned!(here=> (#(#types,)*)));
        let only: FnArg = parse_quote_spanned!(here=> __idem_captured: #captured);
        function.sig.inputs = Punctuated::from_iter([only]);
    }

    fn take_apart(function: &Function, room: &TokenStream) -> TokenStream {
        let here = Span::mixed_site();
        let arguments = &function.arguments;
        // Asked of each by itself, so that the compiler blames the one that is none.
        let extracted = arguments.iter().map(|argument| {
            let ty = &argument.ty;
            let there = here.located_at(ty.span());
            quote_spanned!(there=> #room::extracted::<#ty>();)
        });
        let params = arguments.iter().map(|argument| &argument.param);
        let apart = arguments.iter().filter(|argument| !argument.is_plain()).map(|argument| {
            let param = &argument.param;
            pieces::take_apart(argument, &quote_spanned!(here=> #param))
        });
        quote_spanned! {here=>
            #(#extracted)*
            let ((#(#params,)*), __idem_http, __idem_request) = __idem_captured.into_parts();
            #(#apart)*
        }
    }

    /// The request that a `Responder` may look at.
    fn answer_with() -> TokenStream {
        quote_spanned!(Span::mixed_site()=> , &__idem_http)
    }
}
