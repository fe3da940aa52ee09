//! Handlers of axum: the last argument captures the request, since only that extractor may read the body.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{FnArg, Type, parse_quote_spanned};

use super::Framework;
use crate::expand::pieces::{self, rename};
use crate::signature::{Argument, Function};

/// axum.
pub(crate) enum Axum {}

impl Framework for Axum {
    const ROOM: &str = "axum";
    const DETACHED: &str = "";

    fn sign(function: &mut Function, captured: &dyn Fn(&Type) -> Type, room: &TokenStream) {
        let here = Span::mixed_site();
        for argument in &function.arguments {
            rename(argument, &mut function.sig);
        }
        if let Some(FnArg::Typed(last)) = function.sig.inputs.last_mut() {
            *last.ty = captured(&last.ty);
            if function.arguments.last().is_some_and(Argument::is_plain) {
                *last.pat = parse_quote_spanned!(here=> __idem_captured);
            }
        } else {
            let captured = captured(&parse_quote_spanned!(here=> #room::Nothing));
            function.sig.inputs.push(parse_quote_spanned!(here=> __idem_captured: #captured));
        }
    }

    fn take_apart(function: &Function, _: &TokenStream) -> TokenStream {
        let here = Span::mixed_site();
        let arguments = &function.arguments;
        let last = arguments.last();
        let captured = match last {
            Some(last) if !last.is_plain() => last.param.to_token_stream(),
            _ => quote_spanned!(here=> __idem_captured),
        };
        let apart = arguments.iter().enumerate().filter_map(|(at, argument)| {
            let param = &argument.param;
            let is_last = at + 1 == arguments.len();
            match (is_last, argument.is_plain()) {
                (true, _) if argument.bindings.is_empty() => {
                    Some(quote_spanned!(here=> let #param = __idem_last;))
                }
                (true, _) => Some(pieces::take_apart(argument, &quote_spanned!(here=> __idem_last))),
                (false, false) => Some(pieces::take_apart(argument, &quote!(#param))),
                (false, true) => None,
            }
        });
        let last = if last.is_some() { quote_spanned!(here=> __idem_last) } else { quote_spanned!(here=> _) };
        quote_spanned! {here=>
            let (#last, __idem_request) = #captured.into_parts();
            #(#apart)*
        }
    }

    fn answer_with() -> TokenStream {
        TokenStream::new()
    }
}
