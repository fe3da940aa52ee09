//! The plain flavour: the signature stays, the `Ok` value is stored.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Path, Type};

use super::pieces::{
    Pieces, begin, by_reference, pin_type, rename, take_apart, take_over, without_impl_trait,
};
use crate::args::{Fingerprint, KeySource, Options};
use crate::signature::{Argument, Function};

pub(crate) fn expand(pieces: &Pieces, options: &Options, mut function: Function) -> TokenStream {
    let here = Span::mixed_site();
    // Validation refuses a function that declares no result.
    let Some(output) = function.output().cloned() else { return function.into_token_stream() };
    let work = match &function.boxed {
        Some(boxed) => boxed.inside_tokens(),
        None => function.body.clone(),
    };
    let call = call(pieces, options, &function, &output, &work);
    for argument in &function.arguments {
        rename(argument, &mut function.sig);
    }
    function.body = match &function.boxed {
        None => call,
        Some(boxed) => {
            let (before, pin) = (&boxed.before, &boxed.pin);
            quote_spanned!(here=> #(#before)* #pin(async move { #call }))
        }
    };
    function.into_token_stream()
}

/// Everything that happens when the function is called.
fn call(
    pieces: &Pieces,
    options: &Options,
    function: &Function,
    output: &Type,
    body: &TokenStream,
) -> TokenStream {
    let here = Span::mixed_site();
    let Pieces { krate, site, settings, .. } = pieces;
    let arguments = &function.arguments;
    let apart = arguments.iter().filter(|argument| !argument.is_plain()).map(|argument| {
        let param = &argument.param;
        take_apart(argument, &quote!(#param))
    });
    let key = match &options.key {
        Some(KeySource::Expr(key) | KeySource::Header { expr: key, .. }) => by_reference(key),
        None => TokenStream::new(),
    };
    let (digest, fingerprint) = fingerprint(pieces, options, arguments);
    let begin = begin(krate, options, &quote_spanned!(here=> __idem_output.refused(__idem_error)));
    let (pin, take_over) = (pin_type(output), take_over(options, arguments));
    let outer_pin = function.boxed.as_ref().map(|_| &pin);
    let keep = keep(krate, options, output);
    let run = if pieces.detached { "detached" } else { "inline" };
    let run = Ident::new(&format!("{}_{run}", pieces.run()), here);
    let work = pieces.work(&quote_spanned!(here=> #pin #take_over #body));
    quote_spanned! {here=>
        #outer_pin
        #site
        #keep
        #digest
        #(#apart)*
        let __idem_call = {
            #begin
            __idem_begun.key(#key) #settings #fingerprint
        };
        let __idem_outcome = __idem_output.#run(__idem_call, #work).await;
        __idem_output.finish(__idem_outcome)
    }
}

/// The statements that take the fingerprint of the arguments, and the call that hands it over.
fn fingerprint(pieces: &Pieces, options: &Options, arguments: &[Argument]) -> (TokenStream, TokenStream) {
    let here = Span::mixed_site();
    let krate = &pieces.krate;
    match &options.fingerprint {
        Some(Fingerprint::Nothing) => (TokenStream::new(), quote_spanned!(here=> .unfingerprinted())),
        Some(Fingerprint::Expr(expr)) => {
            let expr = by_reference(expr);
            (TokenStream::new(), quote_spanned!(here=> .fingerprint(#expr)))
        }
        Some(Fingerprint::Raw) | None => {
            let counted = arguments
                .iter()
                .filter(|argument| argument.name().is_none_or(|name| !options.skip.contains(name)))
                .map(|argument| {
                    let (cfg, param) = (&argument.cfg, &argument.param);
                    let name = argument.name().map_or_else(|| param.to_string(), ToString::to_string);
                    // Asked for at the argument, so that the compiler complains there.
                    let ty = without_impl_trait(&argument.ty);
                    let there = here.located_at(ty.span());
                    let value = quote_spanned!(there=> #krate::__private::countable::<#ty>(&#param));
                    quote_spanned!(here=> #(#cfg)* __idem_arguments.add(#name, #value);)
                });
            let digest = quote_spanned! {here=>
                #[allow(unused_mut, clippy::used_underscore_binding)]
                let __idem_fingerprint = {
                    let mut __idem_arguments = #krate::__private::Arguments::new(&__IDEM_SITE);
                    #(#counted)*
                    __idem_arguments.finish()
                };
            };
            (digest, quote_spanned!(here=> .fingerprint_digest(__idem_fingerprint)))
        }
    }
}

/// Asks of the output what storing and replaying it needs, at the place where it is declared.
fn keep(krate: &Path, options: &Options, output: &Type) -> TokenStream {
    let here = Span::mixed_site();
    let there = here.located_at(output.span());
    let whole = if options.given("store_err").is_some() { "output_whole" } else { "output" };
    let (whole, output) = (Ident::new(whole, there), without_impl_trait(output));
    let made = quote_spanned!(there=> #krate::__private::#whole::<#output>());
    quote_spanned!(here=> let __idem_output = #made;)
}
