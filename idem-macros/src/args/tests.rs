use quote::quote;

use super::*;

fn read(tokens: TokenStream) -> (Options, Vec<String>) {
    let mut errors = Errors::default();
    let options = Options::parse(tokens, Flavour::Plain, &mut errors);
    (options, errors.messages())
}

#[test]
fn every_option_is_read() {
    let (options, errors) = read(quote! {
        key = msg.id, ttl = "24h", scope = shared, operation = "orders.ship", engine = idem, skip(pool, idem),
        lease = "10s", max_run = "5m", in_flight = wait("5s"), expired = reject, tombstone_ttl = "30d",
        on_crash = reject, on_disconnect = cancel, on_store_error = run, missing = derive, rebind, store_err,
        inline, crate = ::my::idem, syntax = strict, format = uuidv7, max_len = 64, mismatch_status = 409,
        fingerprint_headers = ["X-Version"], docs_url = "https://example.org", render_errors = house_style,
        on_replay = |_| (), max_request_bytes = 1024, max_response_bytes = LIMIT, echo_key, echo_expiry,
        expiry_header = "X-Expires", store_if = keep, transaction = tx,
    });
    assert_eq!(errors, Vec::<String>::new());
    assert!(matches!(options.key, Some(KeySource::Expr(_))));
    assert!(matches!(options.scope, Some(Scope::Shared)));
    assert_eq!(options.skip, ["pool", "idem"]);
    assert_eq!(
        options.times.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        ["ttl", "lease", "max_run", "tombstone_ttl"]
    );
    assert_eq!((options.policies.len(), options.http.len()), (8, 9));
    assert!(options.given("rebind").is_some() && options.given("store_err").is_some());
    assert!(options.given("detached").is_none());
    assert!(options.krate.is_some() && options.store_if.is_some());
    assert!(options.transaction.is_some_and(|name| name == "tx"));
}

#[test]
fn the_words_of_the_fingerprint_are_told_from_expressions() {
    let fingerprint = |tokens| read(tokens).0.fingerprint;
    assert!(matches!(fingerprint(quote!(fingerprint = none)), Some(Fingerprint::Nothing)));
    assert!(matches!(fingerprint(quote!(fingerprint = raw)), Some(Fingerprint::Raw)));
    assert!(matches!(fingerprint(quote!(fingerprint = (raw))), Some(Fingerprint::Expr(_))));
    assert!(matches!(fingerprint(quote!(fingerprint = (a, b))), Some(Fingerprint::Expr(_))));
}

#[test]
fn commas_inside_an_expression_do_not_end_it() {
    let (options, errors) = read(quote!(key = id::<A, B>(msg, 1), ttl = "1h", scope = (a, b)));
    assert_eq!(errors, Vec::<String>::new());
    assert!(options.key.is_some() && options.scope.is_some());
}

#[test]
fn all_mistakes_are_found_in_one_reading() {
    let (options, errors) = read(quote! {
        key = , tll = "24h", lease = "0s", on_crash = panic, rebind = true, skip = x, 42, ttl = "1h", ttl = "2h"
    });
    assert_eq!(
        errors,
        [
            "`key` needs a value: `key = msg.id`",
            "unknown option `tll`; did you mean `ttl`?",
            "`lease`: \"0s\" is no time at all; it must be longer than zero",
            "`on_crash` is one of `retry`, `reject`",
            "`rebind` stands alone: write `rebind`, or leave it out",
            "`skip` takes the names of arguments in parentheses: `skip(pool, idem)`",
            "expected an option, such as `ttl = \"24h\"`",
            "`ttl` is given twice",
        ]
    );
    assert!(options.given("ttl").is_some());
}

#[test]
fn what_belongs_elsewhere_is_sent_there() {
    assert_eq!(
        read(quote!(replay_header = "x")).1,
        [
            "`replay_header` is a setting of the engine, for all its operations; set it where the engine is built"
        ]
    );
    assert_eq!(
        read(quote!(header = "X-Key")).1,
        ["a key from another header is written `key = header(\"X-Request-Key\")`"]
    );
}

#[test]
fn an_option_of_the_other_flavour_is_not_suggested() {
    let mut errors = Errors::default();
    Options::parse(quote!(store_er), Flavour::Axum, &mut errors);
    assert!(errors.messages()[0].contains("did you mean `store_if`"), "{:?}", errors.messages());
}

#[test]
fn a_forgotten_comma_is_pointed_at() {
    assert_eq!(read(quote!(key = a ttl = "1h", scope = b)).1, ["expected `,` before the next option"]);
}

#[test]
fn what_a_plain_function_has_not_is_not_suggested_to_it() {
    for of_handlers in ["store_i = keep", "sintax = strict", "echo_ke"] {
        let errors = read(of_handlers.parse().unwrap()).1;
        let message = &errors[0];
        assert!(!message.contains("`store_if`") && !message.contains("`syntax`"), "{message}");
        assert!(!message.contains("`echo_key`"), "{message}");
    }
}

#[test]
fn an_option_without_its_value_is_told_how_it_is_written() {
    let alone = |name: &str| name == "skip" || FLAGS.contains(&name) || http::FLAGS.contains(&name);
    for name in NAMES.into_iter().filter(|name| !alone(name)) {
        let example = example(name);
        assert_eq!(read(name.parse().unwrap()).1, [format!("`{name}` needs a value: `{example}`")]);
        let (options, errors) = read(example.parse().unwrap());
        assert_eq!(errors, Vec::<String>::new(), "{example}");
        assert!(options.given(name).is_some(), "`{example}` is no example of `{name}`");
    }
}
