//! Whether options and function fit together: finds every mistake, each at the word that is wrong.

mod transaction;

use proc_macro2::Span;
use syn::visit::Visit;
use syn::{Expr, ExprLit, FnArg, Lit, ReceiverKind, ReturnType, Type};

use crate::args::{Fingerprint, KeySource, Options, http, nearest};
use crate::errors::Errors;
use crate::flavour::Flavour;
use crate::signature::Function;

/// The most bytes that an operation's name may have; core has the same number.
const OPERATION_MAX_LEN: usize = 255;

/// The most arguments of a handler of actix-web.
const EXTRACTORS: usize = 16;

/// Notes everything that is wrong.
pub(crate) fn validate(options: &Options, function: &Function, flavour: Flavour, errors: &mut Errors) {
    check_shape(function, flavour, errors);
    check_key(options, function, flavour, errors);
    check_ttl(options, errors);
    check_operation(options, function, errors);
    check_skip(options, function, flavour, errors);
    check_fingerprint(options, flavour, errors);
    check_storing(options, flavour, errors);
    check_http(options, flavour, errors);
    check_running(options, function, flavour, errors);
    transaction::check(options, function, errors);
}

/// The function as such.
fn check_shape(function: &Function, flavour: Flavour, errors: &mut Errors) {
    let sig = &function.sig;
    if let Some(constness) = &sig.constness {
        errors.on(constness, "a `const fn` runs at compile time and has no request to make happen once");
    }
    if let Some(abi) = &sig.abi {
        errors.on(
            abi,
            "an `extern` function cannot be made idempotent; annotate the Rust function that it calls",
        );
    }
    if let Some(variadic) = &sig.variadic {
        errors.on(variadic, "a function with a variable number of arguments cannot be made idempotent");
    }
    let runs_later = sig.asyncness.is_some() || function.boxed.is_some();
    match &sig.output {
        _ if runs_later || sig.constness.is_some() => {}
        ReturnType::Type(_, ty) if is_impl_future(ty) => {
            errors.on(
                ty,
                "write `async fn` and the future's output here; the attribute needs to see the async body",
            );
        }
        _ => errors
            .on(sig.fn_token, "only an `async fn` can be made idempotent: the store is asked before it runs"),
    }
    match flavour {
        Flavour::Plain if function.output().is_none() && runs_later => errors.at(
            sig.ident.span(),
            "an idempotent function returns `Result<T, E>`: `T` is stored and replayed, and `E: From<idem::Error>` \
             tells the caller when it was not run",
        ),
        Flavour::Plain => {
            let mut owned = OwnsItsData(errors);
            if let Some(output) = function.output() {
                owned.visit_type(output);
            }
        }
        Flavour::Axum | Flavour::Actix => check_handler(function, flavour, errors),
    }
}

/// Complains of what an output borrows: a stored value is read back long after its lender has gone.
struct OwnsItsData<'a>(&'a mut Errors);

impl<'ast> Visit<'ast> for OwnsItsData<'_> {
    fn visit_type_reference(&mut self, ty: &'ast syn::TypeReference) {
        self.0.on(ty, "a stored value owns its data; return it owned, such as `String` for `&str`");
    }

    fn visit_type_impl_trait(&mut self, _: &'ast syn::TypeImplTrait) {}
    fn visit_type_fn_ptr(&mut self, _: &'ast syn::TypeFnPtr) {}
    fn visit_type_trait_object(&mut self, _: &'ast syn::TypeTraitObject) {}
}

fn check_handler(function: &Function, flavour: Flavour, errors: &mut Errors) {
    if let Some(receiver) = function.sig.receiver()
        && (flavour == Flavour::Actix || matches!(receiver.kind, ReceiverKind::Reference(..)))
    {
        errors.on(receiver, "a handler takes owned values; for a method of a service use `idem::idempotent`");
    }
    if function.boxed.is_some() {
        errors.at(
            function.sig.ident.span(),
            "a method of an `#[async_trait]` is no handler, since its signature cannot change; use `idem::idempotent`",
        );
    }
    if flavour == Flavour::Actix {
        return check_extractors(function, errors);
    }
    if let Some(FnArg::Typed(last)) = function.sig.inputs.last()
        && let Some(cfg) = last.attrs.iter().find(|attr| attr.path().is_ident("cfg"))
    {
        errors.on(
            cfg,
            "the last argument captures the request and cannot be conditional; put it before another one",
        );
    }
}

/// The arguments of a handler of actix-web, which are captured as one.
fn check_extractors(function: &Function, errors: &mut Errors) {
    for cfg in function.arguments.iter().filter_map(|argument| argument.cfg.first()) {
        errors.on(
            cfg,
            "the arguments are captured as one and cannot be conditional; make the function conditional instead",
        );
    }
    if let Some(argument) = function.arguments.get(EXTRACTORS) {
        errors.on(
            &argument.ty,
            format!("actix-web extracts {EXTRACTORS} arguments at most; take several as one tuple: `(a, b): (A, B)`"),
        );
    }
}

fn is_impl_future(ty: &Type) -> bool {
    let named_future = |bound: &syn::TypeParamBound| match bound {
        syn::TypeParamBound::Trait(bound) => {
            bound.path.segments.last().is_some_and(|last| last.ident == "Future")
        }
        _ => false,
    };
    matches!(ty, Type::ImplTrait(ty) if ty.bounds.iter().any(named_future))
}

fn check_key(options: &Options, function: &Function, flavour: Flavour, errors: &mut Errors) {
    match &options.key {
        Some(KeySource::Header { span, .. })
            if flavour == Flavour::Plain && !function.bindings().any(|name| name == "header") =>
        {
            errors.at(
                *span,
                "a plain function has no request to take a header from; for a handler import \
                 `idem::axum::idempotent`, otherwise name an argument: `key = msg.id`",
            );
        }
        None if options.given("key").is_none() => errors.at(
            Span::call_site(),
            match flavour {
                Flavour::Plain => "`key` is missing: say what names a request, such as `key = msg.id`",
                Flavour::Axum | Flavour::Actix => "`key` is missing: say what names a request, such as `key = header` for the Idempotency-Key header",
            },
        ),
        _ => {}
    }
}

fn check_ttl(options: &Options, errors: &mut Errors) {
    if options.given("ttl").is_none() {
        errors.at(
            Span::call_site(),
            "`ttl` is missing: say how long an answer is kept for replay, such as `ttl = \"24h\"`",
        );
    }
    if let (Some(expired), Some(ttl)) = (options.policy("expired"), options.given("tombstone_ttl"))
        && expired.is("expired", "Rerun")
    {
        errors.at(
            ttl,
            "`tombstone_ttl` says how long `expired = reject` remembers a key; with `rerun` none is kept",
        );
    }
}

fn check_operation(options: &Options, function: &Function, errors: &mut Errors) {
    match &options.operation {
        Some(Expr::Lit(ExprLit { lit: Lit::Str(name), .. })) => {
            let text = name.value();
            if text.trim().is_empty() {
                errors.on(
                    name,
                    "`operation` is empty; name the work, such as `operation = \"payments.create\"`",
                );
            } else if text.len() > OPERATION_MAX_LEN {
                errors.on(
                    name,
                    format!("`operation` has {} bytes, at most {OPERATION_MAX_LEN} are allowed", text.len()),
                );
            }
        }
        Some(Expr::Lit(other)) => {
            errors.on(other, "`operation` is a text, such as `operation = \"payments.create\"`");
        }
        Some(_) => {}
        None if options.given("operation").is_some() => {}
        None => {
            if let Some(why) = function.ambiguity() {
                let name = function.name();
                errors.at(
                    function.sig.ident.span(),
                    format!("{why}, so name the work: add `operation = \"..{name}\"` to the attribute"),
                );
            }
        }
    }
}

fn check_skip(options: &Options, function: &Function, flavour: Flavour, errors: &mut Errors) {
    let Some(skip) = options.given("skip") else { return };
    if flavour.is_http() {
        errors.at(
            skip,
            "a handler's fingerprint is the request, not its arguments: there is nothing to skip; \
             `fingerprint = (..)` picks what counts",
        );
        return;
    }
    if options.given("fingerprint").is_some() {
        errors.at(skip, "`skip` leaves arguments out of the fingerprint, but `fingerprint = ..` replaces them all; keep one");
    }
    let names: Vec<String> =
        function.arguments.iter().filter_map(|argument| argument.name().map(ToString::to_string)).collect();
    for (at, ident) in options.skip.iter().enumerate() {
        let word = ident.to_string();
        if word == "self" {
            errors.at(ident.span(), "`self` is never part of the fingerprint; leave it out of `skip`");
        } else if options.skip[..at].contains(ident) {
            errors.at(ident.span(), format!("`{word}` is skipped twice"));
        } else if !names.contains(&word) {
            let hint = match nearest(&word, names.iter().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None if names.is_empty() => "there are none".to_owned(),
                None => {
                    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
                    format!("the arguments are {}", names.join(", "))
                }
            };
            errors.at(ident.span(), format!("no argument is called `{word}`; {hint}"));
        }
    }
}

fn check_fingerprint(options: &Options, flavour: Flavour, errors: &mut Errors) {
    let Some(span) = options.given("fingerprint") else { return };
    if let (Some(headers), Some(Fingerprint::Expr(_) | Fingerprint::Nothing)) =
        (options.given("fingerprint_headers"), &options.fingerprint)
    {
        errors.at(
            headers,
            "`fingerprint = ..` replaces all that a request is compared by, its headers too; name what counts there",
        );
    }
    match &options.fingerprint {
        Some(Fingerprint::Raw) if flavour == Flavour::Plain => errors.at(
            span,
            "`fingerprint = raw` compares the bytes of a request, which a plain function does not have",
        ),
        Some(Fingerprint::Nothing)
            if options.policy("missing").is_some_and(|policy| policy.is("missing", "Derive")) =>
        {
            errors.at(
                span,
                "`missing = derive` makes the key from the fingerprint, and `fingerprint = none` leaves none",
            );
        }
        _ => {}
    }
}

fn check_storing(options: &Options, flavour: Flavour, errors: &mut Errors) {
    if let (true, Some(span)) = (flavour.is_http(), options.given("store_err")) {
        errors
            .at(span, "a handler's answer is kept by its status; `store_if = |response| ..` says otherwise");
    }
    if let (Flavour::Plain, Some(span)) = (flavour, options.given("store_if")) {
        errors.at(span, "`store_if` looks at a response, which a plain function does not make; `store_err` keeps errors too");
    }
}

/// What only requests and responses have, or only keys from a header.
fn check_http(options: &Options, flavour: Flavour, errors: &mut Errors) {
    for name in http::names() {
        let Some(span) = options.given(name) else { continue };
        if flavour == Flavour::Plain {
            errors.at(
                span,
                format!("`{name}` is about HTTP, which a plain function knows nothing of; for a handler import `idem::axum::idempotent`"),
            );
        } else if http::OF_THE_KEY.contains(&name) && matches!(options.key, Some(KeySource::Expr(_))) {
            errors.at(
                span,
                format!("`{name}` is about the header of a key, and this key is an expression: check it where it comes from"),
            );
        }
    }
}

fn check_running(options: &Options, function: &Function, flavour: Flavour, errors: &mut Errors) {
    let (inline, detached) = (options.given("inline"), options.given("detached"));
    let borrow = function.borrow(flavour);
    if let (Some(_), Some(span)) = (inline, detached) {
        errors.at(span, "`inline` and `detached` exclude each other; keep one, or leave both out");
        return;
    }
    if let (Some(span), Some(borrow)) = (detached, &borrow)
        && borrow.certain
    {
        errors
            .at(span, "work that outlives its caller must own its arguments, and this function borrows one");
        errors
            .on(&borrow.tokens, "borrowed here; take it owned (an `Arc`, a clone), or leave `detached` out");
    }
    let Some(finish) = options.policy("on_disconnect").filter(|policy| policy.is("on_disconnect", "Finish"))
    else {
        return;
    };
    if inline.is_some() {
        errors.at(finish.span, "`inline` work ends with its caller, so it cannot `finish` after a disconnect; keep one of the two");
    } else if let (None, Some(borrow)) = (detached, borrow) {
        errors.at(
            finish.span,
            "work that finishes after a disconnect must own its arguments, and this function may borrow one",
        );
        errors.on(
            borrow.tokens,
            if borrow.certain {
                "borrowed here; take it owned (an `Arc`, a clone)"
            } else {
                "this may borrow; add `'static` to its bounds, or `detached` to the attribute"
            },
        );
    }
}

#[cfg(test)]
mod tests;
