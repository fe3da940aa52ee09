//! The HTTP flavours: the request is captured with the handler's arguments, the response is stored as bytes.

mod actix;
mod axum;

pub(crate) use actix::Actix;
pub(crate) use axum::Axum;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;
use syn::{Path, Type, TypeImplTrait, TypeParamBound, parse_quote_spanned};

use super::pieces::{Pieces, begin, by_reference, pin_type, take_over, without_impl_trait};
use crate::args::{self, Fingerprint, KeySource, Options};
use crate::signature::Function;

/// What the handlers of a framework have of their own.
pub(crate) trait Framework {
    /// Where its part of the runtime is, below `__private`.
    const ROOM: &str;
    /// What the call of work is named that goes on without its caller, after `run` or `transact`.
    const DETACHED: &str;

    /// Lets the signature capture the request; `captured` makes the type of a captured argument.
    fn sign(function: &mut Function, captured: &dyn Fn(&Type) -> Type, room: &TokenStream);

    /// Takes the captured argument apart: binds `__idem_request`, and what the other arguments' patterns bind.
    fn take_apart(function: &Function, room: &TokenStream) -> TokenStream;

    /// What making a response of `__idem_answer` takes besides.
    fn answer_with() -> TokenStream;
}

pub(crate) fn expand<F: Framework>(
    pieces: &Pieces,
    options: &Options,
    mut function: Function,
) -> TokenStream {
    let here = Span::mixed_site();
    let (krate, room) = (&pieces.krate, Ident::new(F::ROOM, here));
    let room = quote_spanned!(here=> #krate::__private::#room);
    function.body = body::<F>(&room, pieces, options, &function);
    // The compiler blames extractors at their type.
    let captured = |ty: &Type| captured(&room, options, ty, here.located_at(ty.span()));
    F::sign(&mut function, &captured, &room);
    function.sig.output = parse_quote_spanned!(here=> -> #room::Response);
    function.into_token_stream()
}

/// Everything that happens when the handler is called.
fn body<F: Framework>(
    room: &TokenStream,
    pieces: &Pieces,
    options: &Options,
    function: &Function,
) -> TokenStream {
    let here = Span::mixed_site();
    let Pieces { krate, site, settings, .. } = pieces;
    let arguments = &function.arguments;
    let apart = F::take_apart(function, room);
    let warning = options.given("scope").is_none().then(|| {
        let there = here.located_at(Span::call_site());
        quote_spanned!(there=> let () = #krate::__private::SCOPE_LEFT_OUT;)
    });
    let begin = begin(krate, options, &quote_spanned!(here=> #room::refuse(&__idem_error)));
    let (key, fingerprint) = (key(options), fingerprint(options));
    let http = http(krate, options);
    let store_if = options.store_if.as_ref().map(|predicate| quote_spanned!(here=> .store_if(#predicate)));
    let take_over = take_over(options, arguments);
    let opaque = Opaque::of(function);
    let run = if pieces.detached { F::DETACHED } else { "_inline" };
    let run = Ident::new(&format!("{}{run}", pieces.run()), here);
    let (pin, work) = (function.output().map(pin_type), &function.body);
    // The compiler blames an answer that is no response where it is declared.
    let there = here.located_at(function.output().map_or_else(|| function.sig.ident.span(), Spanned::span));
    let with = F::answer_with();
    let answer = quote_spanned!(there=> #room::into_response(__idem_answer #with));
    let look = opaque
        .as_ref()
        .filter(|opaque| opaque.looks)
        .map(|_| quote_spanned!(here=> __idem_opaque(&__idem_answer);));
    let opaque = opaque.map(|opaque| opaque.item);
    let answer = if pieces.transaction.is_some() {
        let writes = writes(room, function);
        quote_spanned!(here=> let __idem_writes = #writes; (#answer, __idem_writes))
    } else {
        answer
    };
    let work = pieces.work(&quote_spanned! {here=>
        #take_over
        let __idem_answer = async move {
            #pin
            #work
        }.await;
        #look
        #answer
    });
    quote_spanned! {here=>
        #site
        #opaque
        #warning
        #apart
        let __idem_call = {
            #begin
            #room::call(__idem_begun, __idem_request)
                #key #settings #http #fingerprint #store_if
        };
        __idem_call.#run(#work).await
    }
}

/// What becomes of what the handler wrote in its transaction, as far as its value says: an `Err` undoes it.
///
/// Asked of the value, since the declared type may be an alias. What is `impl Trait` as a whole says nothing, and its
/// value may never come to be, so that it has no type to ask.
fn writes(room: &TokenStream, function: &Function) -> TokenStream {
    let here = Span::mixed_site();
    match function.output() {
        Some(output) if !matches!(without_impl_trait(output), Type::Infer(_) | Type::Never(_)) => {
            quote_spanned!(here=> #room::Told::of(&__idem_answer).writes())
        }
        _ => quote_spanned!(here=> #room::Writes::Keep),
    }
}

/// The extractor that captures, within a limit of the handler's own or the engine's, and with all headers if others than
/// the usual one are needed.
fn captured(room: &TokenStream, options: &Options, ty: &Type, there: Span) -> Type {
    let all_headers = matches!(options.key, Some(KeySource::Header { name: Some(_), .. }))
        || options.given("fingerprint_headers").is_some();
    match options.http.iter().find(|(name, _)| *name == "max_request_bytes") {
        Some((_, limit)) => {
            parse_quote_spanned!(there=> #room::Captured<#ty, #room::Tuned<{ #limit }, #all_headers>>)
        }
        None if all_headers => parse_quote_spanned!(there=> #room::Captured<#ty>),
        None => parse_quote_spanned!(there=> #room::CapturedBriefly<#ty>),
    }
}

/// What the handler says of its key, its fingerprint and its answers over HTTP.
fn http(krate: &Path, options: &Options) -> TokenStream {
    let here = Span::mixed_site();
    let mut said = TokenStream::new();
    for policy in options.policies.iter().filter(|policy| policy.is_of_http()) {
        let (name, value) = (Ident::new(policy.option(), here), policy.expression(krate));
        said.extend(quote_spanned!(here=> .#name(#value)));
    }
    for (name, value) in &options.http {
        let name = Ident::new(name, here);
        said.extend(quote_spanned!(here=> .#name(#value)));
    }
    for name in args::http::FLAGS.into_iter().filter(|name| options.given(name).is_some()) {
        let name = Ident::new(name, here);
        said.extend(quote_spanned!(here=> .#name(true)));
    }
    if said.is_empty() {
        return said;
    }
    quote_spanned!(here=> .http(|__idem_http| __idem_http #said))
}

/// What the declared answer says after `impl`, since the signature says it no longer: else what was imported for it
/// would be called unused, and what the body leaves open would be inferred from nothing.
struct Opaque {
    /// A function `__idem_opaque`.
    item: TokenStream,
    /// Whether it looks at the answer as declared, so that the compiler infers from that; it can where no generics are
    /// involved, which an item does not inherit.
    looks: bool,
}

impl Opaque {
    fn of(function: &Function) -> Option<Self> {
        let mut declared = function.output()?.clone();
        let mut found = Found(Vec::new());
        found.visit_type_mut(&mut declared);
        let types = found.0;
        if types.is_empty() {
            return None;
        }
        let here = Span::mixed_site();
        let (generics, _, clause) = function.sig.generics.split_for_impl();
        let looks = function.sig.generics.params.is_empty() && !function.is_method();
        let item = if looks {
            let there = here.located_at(declared.span());
            quote_spanned!(there=> fn __idem_opaque(_: &#declared) {})
        } else {
            quote_spanned!(here=> #[allow(dead_code)] fn __idem_opaque #generics (#(_: #types),*) #clause {})
        };
        Some(Self { item, looks })
    }
}

/// Collects what is `impl Trait`, and takes `use<..>` out of it, which is for return types only.
struct Found(Vec<TypeImplTrait>);

impl VisitMut for Found {
    fn visit_type_impl_trait_mut(&mut self, ty: &mut TypeImplTrait) {
        ty.bounds = std::mem::take(&mut ty.bounds)
            .into_iter()
            .filter(|bound| !matches!(bound, TypeParamBound::PreciseCapture(_)))
            .collect();
        self.0.push(ty.clone());
    }
}

fn key(options: &Options) -> TokenStream {
    let here = Span::mixed_site();
    match &options.key {
        Some(KeySource::Header { name: Some(name), .. }) => {
            quote_spanned!(here=> .key_header(::core::option::Option::Some(#name)))
        }
        Some(KeySource::Header { name: None, .. }) => {
            quote_spanned!(here=> .key_header(::core::option::Option::None))
        }
        Some(KeySource::Expr(expr)) => {
            let key = by_reference(expr);
            quote_spanned!(here=> .key(#key))
        }
        None => TokenStream::new(),
    }
}

/// The fingerprint is the request's own unless another one is asked for.
fn fingerprint(options: &Options) -> TokenStream {
    let here = Span::mixed_site();
    match &options.fingerprint {
        None => TokenStream::new(),
        Some(Fingerprint::Nothing) => quote_spanned!(here=> .unfingerprinted()),
        Some(Fingerprint::Raw) => quote_spanned!(here=> .fingerprint_raw()),
        Some(Fingerprint::Expr(expr)) => {
            let expr = by_reference(expr);
            quote_spanned!(here=> .fingerprint(#expr))
        }
    }
}
