use proc_macro2::TokenStream;
use quote::quote;

use super::*;

fn mistakes(flavour: Flavour, options: TokenStream, function: TokenStream) -> Vec<String> {
    let mut errors = Errors::default();
    let options = Options::parse(options, flavour, &mut errors);
    let function = syn::parse2(function).expect("a function");
    validate(&options, &function, flavour, &mut errors);
    errors.messages()
}

#[track_caller]
fn refuses(flavour: Flavour, options: TokenStream, function: TokenStream, expected: &str) {
    let mistakes = mistakes(flavour, options, function);
    assert!(mistakes.iter().any(|mistake| mistake.contains(expected)), "{mistakes:?}");
}

const NONE: [String; 0] = [];

#[test]
fn key_and_ttl_are_enough() {
    let function = quote!(
        async fn f(msg: Msg) -> Result<(), E> {}
    );
    assert_eq!(mistakes(Flavour::Plain, quote!(key = msg.id, ttl = "24h"), function), NONE);
    assert_eq!(
        mistakes(
            Flavour::Axum,
            quote!(key = header, ttl = "24h"),
            quote!(
                async fn f() {}
            )
        ),
        NONE
    );
}

#[test]
fn without_key_or_ttl_nothing_is_promised() {
    let found = mistakes(
        Flavour::Plain,
        quote!(),
        quote!(
            async fn f() -> Result<(), E> {}
        ),
    );
    assert!(
        found[0].starts_with("`key` is missing") && found[1].starts_with("`ttl` is missing"),
        "{found:?}"
    );
}

#[test]
fn an_option_that_could_not_be_read_is_not_called_missing() {
    let found = mistakes(
        Flavour::Plain,
        quote!(key = , ttl = "0s"),
        quote!(
            async fn f() -> Result<(), E> {}
        ),
    );
    assert_eq!(found.len(), 2, "{found:?}");
    let found = mistakes(
        Flavour::Plain,
        quote!(key = k, ttl = "1h", operation =),
        quote!(
            async fn f<T>() -> Result<(), E> {}
        ),
    );
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn what_is_about_http_is_refused_in_a_function_and_what_is_about_a_header_without_one() {
    for option in [
        quote!(syntax = strict),
        quote!(max_len = 64),
        quote!(fingerprint_headers = ["X-A"]),
        quote!(mismatch_status = 409),
        quote!(docs_url = "https://example.org"),
        quote!(render_errors = house_style),
        quote!(on_replay = |_| ()),
        quote!(echo_expiry),
        quote!(expiry_header = "X-Expires"),
        quote!(max_response_bytes = 5),
    ] {
        refuses(
            Flavour::Plain,
            quote!(key = id, ttl = "1h", #option),
            quote!(
                async fn f(id: u32) -> R {}
            ),
            "is about HTTP",
        );
    }
    for option in [quote!(syntax = strict), quote!(format = uuid), quote!(max_len = 64), quote!(echo_key)] {
        let handler = || {
            quote!(
                async fn f(id: Path<u32>) {}
            )
        };
        refuses(
            Flavour::Axum,
            quote!(key = id.0, ttl = "1h", #option),
            handler(),
            "this key is an expression",
        );
        assert_eq!(
            mistakes(Flavour::Axum, quote!(key = header("X-Key"), ttl = "1h", #option), handler()),
            NONE
        );
    }
}

#[test]
fn header_means_the_header_in_handlers_only() {
    let options = || quote!(key = header, ttl = "1h");
    refuses(
        Flavour::Plain,
        options(),
        quote!(
            async fn f(a: A) -> R {}
        ),
        "idem::axum::idempotent",
    );
    assert_eq!(
        mistakes(
            Flavour::Plain,
            options(),
            quote!(
                async fn f(header: A) -> R {}
            )
        ),
        NONE
    );
}

#[test]
fn only_async_functions_will_do() {
    let options = || quote!(key = k, ttl = "1h");
    for (function, expected) in [
        (
            quote!(
                fn f() -> Result<(), E> {}
            ),
            "only an `async fn`",
        ),
        (
            quote!(
                const fn f() -> Result<(), E> {}
            ),
            "`const fn`",
        ),
        (
            quote!(
                fn f() -> impl Future<Output = R> {}
            ),
            "write `async fn`",
        ),
        (
            quote!(
                async extern "C" fn f() -> Result<(), E> {}
            ),
            "`extern` function",
        ),
        (
            quote!(
                async fn f() {}
            ),
            "returns `Result<T, E>`",
        ),
        (
            quote!(
                async fn f() -> Result<Vec<&'static str>, E> {}
            ),
            "a stored value owns its data",
        ),
    ] {
        refuses(Flavour::Plain, options(), function, expected);
    }
}

#[test]
fn skip_names_arguments_that_exist() {
    let function = || {
        quote!(
            async fn f(msg: M, (pool, x): P) -> R {}
        )
    };
    let with = |skip: TokenStream| quote!(key = k, ttl = "1h", skip(#skip));
    assert_eq!(mistakes(Flavour::Plain, with(quote!(pool)), function()), NONE);
    refuses(Flavour::Plain, with(quote!(pol)), function(), "did you mean `pool`?");
    refuses(Flavour::Plain, with(quote!(database)), function(), "the arguments are `msg`, `pool`");
    refuses(Flavour::Plain, with(quote!(msg, msg)), function(), "`msg` is skipped twice");
    refuses(Flavour::Plain, with(quote!(self)), function(), "`self` is never part");
    refuses(Flavour::Axum, with(quote!(msg)), function(), "there is nothing to skip");
    let nothing = quote!(
        async fn f() -> R {}
    );
    refuses(Flavour::Plain, with(quote!(pool)), nothing, "no argument is called `pool`; there are none");
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let function = || {
        quote!(
            async fn f(msg: M) -> R {}
        )
    };
    for (options, expected) in [
        (quote!(skip(msg), fingerprint = 1), "keep one"),
        (quote!(missing = derive, fingerprint = none), "leaves none"),
        (quote!(expired = rerun, tombstone_ttl = "1d"), "with `rerun` none is kept"),
        (quote!(inline, detached), "exclude each other"),
        (quote!(inline, on_disconnect = finish), "ends with its caller"),
        (quote!(fingerprint = raw), "compares the bytes of a request"),
        (quote!(store_if = |r| true), "`store_err` keeps errors too"),
        (quote!(transaction = tx), "needs `engine = ..`"),
        (quote!(transaction = tx, engine = e, on_crash = reject), "no outcome that nobody knows"),
        (quote!(transaction = tx, engine = e, on_store_error = run), "no transaction to run in"),
        (quote!(transaction = msg, engine = e), "and so is this argument"),
    ] {
        refuses(Flavour::Plain, quote!(key = k, ttl = "1h", #options), function(), expected);
    }
    refuses(Flavour::Axum, quote!(key = k, ttl = "1h", store_err), function(), "kept by its status");
}

#[test]
fn options_that_go_together_are_accepted() {
    for (flavour, options) in [
        (Flavour::Axum, quote!(fingerprint = raw)),
        (Flavour::Actix, quote!(fingerprint = raw, fingerprint_headers = ["X-A"])),
        (Flavour::Plain, quote!(missing = run, fingerprint = none)),
        (Flavour::Plain, quote!(missing = derive, fingerprint = msg)),
        (Flavour::Plain, quote!(expired = reject, tombstone_ttl = "1d")),
        (Flavour::Plain, quote!(inline, on_disconnect = cancel)),
        (Flavour::Plain, quote!(detached, on_disconnect = finish)),
        (Flavour::Axum, quote!(store_if = keep)),
        (Flavour::Plain, quote!(store_err)),
    ] {
        let function = quote!(
            async fn f(msg: M) -> R {}
        );
        assert_eq!(mistakes(flavour, quote!(key = k, ttl = "1h", #options), function), NONE, "{options}");
    }
}

#[test]
fn work_that_borrows_cannot_outlive_its_caller() {
    let options = |more: TokenStream| quote!(key = k, ttl = "1h", operation = "o", #more);
    let borrowing = || {
        quote!(
            async fn f(pool: &Pool) -> R {}
        )
    };
    refuses(Flavour::Plain, options(quote!(detached)), borrowing(), "must own its arguments");
    refuses(Flavour::Plain, options(quote!(on_disconnect = finish)), borrowing(), "must own its arguments");
    let maybe = || {
        quote!(
            async fn f(a: impl Into<A>) -> R {}
        )
    };
    refuses(Flavour::Plain, options(quote!(on_disconnect = finish)), maybe(), "add `'static`");
    assert_eq!(mistakes(Flavour::Plain, options(quote!(detached, on_disconnect = finish)), maybe()), NONE);
}

#[test]
fn an_operation_is_a_name() {
    let with = |operation: TokenStream| quote!(key = k, ttl = "1h", operation = #operation);
    let long = "o".repeat(256);
    for (operation, expected) in [
        (quote!(""), "is empty"),
        (quote!("  "), "is empty"),
        (quote!(5), "is a text"),
        (quote!(#long), "256 bytes"),
    ] {
        refuses(
            Flavour::Plain,
            with(operation),
            quote!(
                async fn f() -> R {}
            ),
            expected,
        );
    }
    let longest = "o".repeat(255);
    assert_eq!(
        mistakes(
            Flavour::Plain,
            with(quote!(#longest)),
            quote!(
                async fn f() -> R {}
            )
        ),
        NONE
    );
    assert_eq!(
        mistakes(
            Flavour::Plain,
            with(quote!(names::SHIP)),
            quote!(
                async fn f<T>() -> R {}
            )
        ),
        NONE
    );
    refuses(
        Flavour::Plain,
        quote!(key = k, ttl = "1h"),
        quote!(
            async fn f<T>() -> R {}
        ),
        "operation = \"..f\"",
    );
}

#[test]
fn a_handler_is_an_ordinary_owned_function() {
    let options = || quote!(key = header, ttl = "1h", operation = "o");
    refuses(
        Flavour::Axum,
        options(),
        quote!(
            async fn f(&self) {}
        ),
        "takes owned values",
    );
    refuses(
        Flavour::Axum,
        options(),
        quote!(
            async fn f(#[cfg(x)] a: A) {}
        ),
        "cannot be conditional",
    );
    assert_eq!(
        mistakes(
            Flavour::Axum,
            options(),
            quote!(
                async fn f(self, #[cfg(x)] a: A, b: B) {}
            )
        ),
        NONE
    );
}

#[test]
fn every_mistake_is_found_at_once() {
    let found = mistakes(
        Flavour::Plain,
        quote!(key = header, tll = "1h", skip(x), on_crash = explode),
        quote!(
            const fn f<T>(a: A) -> R {}
        ),
    );
    assert_eq!(found.len(), 7, "{found:#?}");
}

#[test]
fn what_fits_a_transaction_is_accepted() {
    for options in [
        quote!(on_crash = retry, on_store_error = reject, missing = run, lease = "5s"),
        quote!(inline, on_disconnect = cancel, in_flight = wait("5s"), rebind),
    ] {
        let options = quote!(key = k, ttl = "1h", engine = e, transaction = tx, #options);
        for flavour in [Flavour::Plain, Flavour::Axum, Flavour::Actix] {
            let function = quote!(
                async fn f(e: E) -> R {}
            );
            assert_eq!(mistakes(flavour, options.clone(), function), NONE);
        }
    }
}

#[test]
fn a_variable_may_hide_the_transaction_only_if_it_is_made_of_it() {
    let mistakes = |body: TokenStream| {
        let options = quote!(key = k, ttl = "1h", engine = e, transaction = tx);
        mistakes(Flavour::Plain, options, quote!(async fn f(e: E) -> R { #body }))
    };
    for body in [
        quote!(let tx = pool.begin().await?; ok()),
        quote!(if a {
            let (mut tx, rx) = channel();
        }),
        quote!(let Some(Pair { tx, .. }) = pair else { return no() };),
        quote!(let tx; tx = pool.begin().await?;),
        quote!(let tx = wrap!(pool);),
    ] {
        let found = mistakes(body.clone());
        assert!(found.len() == 1 && found[0].starts_with("this hides the transaction"), "{body}: {found:?}");
    }
    for body in [
        quote!(let tx = &mut **tx; ok()),
        quote!(let tx = wrap!(tx);),
        quote!(let tx = wrap!([Some(&mut *tx)]);),
        quote!(let rx = channel(tx); fn g() { let tx = 1; }),
        quote!(let f = |tx: u8| tx;),
        quote!(this does not parse),
    ] {
        assert_eq!(mistakes(body), NONE);
    }
}

#[test]
fn a_handler_of_actix_takes_at_most_16_arguments_and_all_of_them() {
    let options = || quote!(key = header, ttl = "1h", operation = "f");
    refuses(
        Flavour::Actix,
        options(),
        quote!(
            async fn f(self, a: A) {}
        ),
        "takes owned values",
    );
    let conditional = quote!(
        async fn f(#[cfg(unix)] a: A, b: B) {}
    );
    refuses(Flavour::Actix, options(), conditional, "cannot be conditional");
    let arguments = |count: usize| {
        let names = (0..count).map(|at| quote::format_ident!("a{at}"));
        quote!(async fn f(#(#names: A),*) {})
    };
    refuses(Flavour::Actix, options(), arguments(17), "16 arguments at most");
    assert_eq!(mistakes(Flavour::Actix, options(), arguments(16)), NONE);
}
