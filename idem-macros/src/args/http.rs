//! Options that only handlers have: what they say of their key, their fingerprint and their answers over HTTP.

use syn::{Expr, ExprArray, ExprLit, Lit, LitInt};

use super::key::check_header_name;

/// Those that take a value, in the order in which the documentation has them.
pub(crate) const VALUES: [&str; 9] = [
    "max_len",
    "fingerprint_headers",
    "max_request_bytes",
    "max_response_bytes",
    "mismatch_status",
    "docs_url",
    "render_errors",
    "on_replay",
    "expiry_header",
];

/// Those that stand alone.
pub(crate) const FLAGS: [&str; 2] = ["echo_key", "echo_expiry"];

/// Those whose value is a word, among the [choices](super::policy::CHOICES).
const WORDS: [&str; 2] = ["syntax", "format"];

/// Those that say what the key's header may hold.
pub(crate) const OF_THE_KEY: [&str; 4] = ["syntax", "format", "max_len", "echo_key"];

/// The longest key in bytes; core has the same number.
const MAX_KEY_LEN: u16 = 255;

/// All of them.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    WORDS.into_iter().chain(VALUES).chain(FLAGS)
}

/// Refuses a literal that the option cannot have; expressions are looked at when the call runs.
pub(crate) fn check(name: &str, value: &Expr) -> syn::Result<()> {
    let refuse = |message: &str| Err(syn::Error::new_spanned(value, message));
    match (name, value) {
        ("max_len", Expr::Lit(lit)) if !is_within(lit, 1, MAX_KEY_LEN) => {
            refuse("`max_len` is the longest key in bytes: 1 to 255")
        }
        ("mismatch_status", Expr::Lit(lit)) if !is_within(lit, 400, 499) => {
            refuse("`mismatch_status` is 400 to 499: a key that was used twice is a mistake of the client's")
        }
        ("max_request_bytes" | "max_response_bytes", Expr::Lit(lit)) if number(lit).is_none() => {
            refuse(&format!("`{name}` is a number of bytes, such as `{name} = 64 * 1024`"))
        }
        ("docs_url", Expr::Lit(lit)) if !is_url(lit) => {
            refuse("`docs_url` is a URL: `docs_url = \"https://example.org/docs/idempotency\"`")
        }
        ("fingerprint_headers", Expr::Lit(_)) => refuse(
            "`fingerprint_headers` is a list of the headers that count: `fingerprint_headers = [\"X-Version\"]`",
        ),
        ("fingerprint_headers", Expr::Array(ExprArray { elems, .. })) => {
            let mut names = elems.iter().filter_map(|elem| match elem {
                Expr::Lit(ExprLit { lit: Lit::Str(name), .. }) => Some(name),
                _ => None,
            });
            names.try_for_each(check_header_name)
        }
        ("expiry_header", Expr::Lit(ExprLit { lit: Lit::Str(name), .. })) => check_header_name(name),
        ("expiry_header", Expr::Lit(_)) => {
            refuse("`expiry_header` is the name of a header: `expiry_header = \"X-Expires\"`")
        }
        ("render_errors" | "on_replay", Expr::Lit(_)) => {
            refuse(&format!("`{name}` takes a function or a closure: `{}`", super::example(name)))
        }
        _ => Ok(()),
    }
}

fn number(lit: &ExprLit) -> Option<&LitInt> {
    match &lit.lit {
        Lit::Int(number) => Some(number),
        _ => None,
    }
}

fn is_within(lit: &ExprLit, least: u16, most: u16) -> bool {
    number(lit)
        .and_then(|number| number.base10_parse::<u16>().ok())
        .is_some_and(|number| (least..=most).contains(&number))
}

fn is_url(lit: &ExprLit) -> bool {
    match &lit.lit {
        Lit::Str(url) => {
            let url = url.value();
            !url.is_empty() && url.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>\"".contains(&byte))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse_quote;

    fn why(name: &str, value: &Expr) -> String {
        check(name, value).unwrap_err().to_string()
    }

    #[test]
    fn a_literal_that_cannot_be_is_refused() {
        for value in [parse_quote!(0), parse_quote!(256), parse_quote!("64"), parse_quote!(1.5)] {
            assert!(why("max_len", &value).contains("1 to 255"));
        }
        for value in [parse_quote!(399), parse_quote!(500), parse_quote!(65536), parse_quote!("409")] {
            assert!(why("mismatch_status", &value).contains("400 to 499"));
        }
        for value in
            [parse_quote!(""), parse_quote!("a b"), parse_quote!("a>b"), parse_quote!("é"), parse_quote!(5)]
        {
            assert!(why("docs_url", &value).contains("is a URL"));
        }
        assert!(why("max_request_bytes", &parse_quote!("1 MiB")).contains("64 * 1024"));
        assert!(why("fingerprint_headers", &parse_quote!("X-A")).contains("is a list"));
        assert!(why("fingerprint_headers", &parse_quote!(["X-A", "X B"])).contains("not a header name"));
        assert!(why("expiry_header", &parse_quote!("X Expires")).contains("not a header name"));
        assert!(why("expiry_header", &parse_quote!(5)).contains("name of a header"));
        assert!(why("on_replay", &parse_quote!(true)).contains("on_replay = |replay|"));
    }

    #[test]
    fn expressions_and_what_can_be_are_accepted() {
        for (name, value) in [
            ("max_len", parse_quote!(255)),
            ("max_len", parse_quote!(settings.max_len)),
            ("mismatch_status", parse_quote!(409)),
            ("docs_url", parse_quote!("https://example.org/#a")),
            ("docs_url", parse_quote!(DOCS)),
            ("fingerprint_headers", parse_quote!(["X-A", B])),
            ("fingerprint_headers", parse_quote!(HEADERS)),
            ("max_response_bytes", parse_quote!(64 * 1024)),
            ("render_errors", parse_quote!(house_style)),
            ("expiry_header", parse_quote!("X-Expires")),
            ("expiry_header", parse_quote!(EXPIRES)),
        ] {
            assert!(check(name, &value).is_ok(), "{name}");
        }
    }
}
