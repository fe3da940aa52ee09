//! The options of the attribute, read from its tokens.
//!
//! Reading stops at no mistake: what can be read is kept, the rest is noted.

mod duration;
pub(crate) mod http;
mod key;
mod nearest;
mod policy;
mod time;

use std::collections::HashSet;

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Expr, Path, Token, parenthesized};

pub(crate) use key::KeySource;
use key::is_word;
pub(crate) use nearest::nearest;
use policy::CHOICES;
pub(crate) use policy::Policy;
pub(crate) use time::Time;

use crate::errors::Errors;
use crate::flavour::Flavour;

/// The options as they were written.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) key: Option<KeySource>,
    pub(crate) scope: Option<Scope>,
    pub(crate) operation: Option<Expr>,
    pub(crate) engine: Option<Expr>,
    pub(crate) skip: Vec<Ident>,
    pub(crate) fingerprint: Option<Fingerprint>,
    /// `ttl`, `lease`, `max_run`, `tombstone_ttl`.
    pub(crate) times: Vec<(&'static str, Time)>,
    pub(crate) policies: Vec<Policy>,
    pub(crate) store_if: Option<Expr>,
    /// Options of handlers that take a value.
    pub(crate) http: Vec<(&'static str, Expr)>,
    pub(crate) krate: Option<Path>,
    /// What the body calls its transaction.
    pub(crate) transaction: Option<Ident>,
    /// Every option that was named, also those whose value could not be read.
    given: Vec<Ident>,
    /// Every word in the options' values and names.
    mentioned: HashSet<Ident>,
}

/// Who is asking.
pub(crate) enum Scope {
    Shared,
    Expr(Expr),
}

/// What makes two calls the same.
pub(crate) enum Fingerprint {
    Nothing,
    Raw,
    Expr(Expr),
}

const TIMES: [&str; 4] = ["ttl", "lease", "max_run", "tombstone_ttl"];
const FLAGS: [&str; 4] = ["store_err", "rebind", "inline", "detached"];

/// In the order in which the documentation has them.
const NAMES: [&str; 36] = [
    "key",
    "ttl",
    "scope",
    "operation",
    "engine",
    "skip",
    "fingerprint",
    "fingerprint_headers",
    "syntax",
    "format",
    "max_len",
    "lease",
    "max_run",
    "in_flight",
    "expired",
    "tombstone_ttl",
    "on_crash",
    "on_disconnect",
    "on_store_error",
    "missing",
    "rebind",
    "store_err",
    "store_if",
    "max_request_bytes",
    "max_response_bytes",
    "mismatch_status",
    "docs_url",
    "render_errors",
    "on_replay",
    "echo_key",
    "echo_expiry",
    "expiry_header",
    "inline",
    "detached",
    "transaction",
    "crate",
];

/// Settings that belong to the engine, with the sentence that says so.
const OF_THE_ENGINE: [&str; 5] =
    ["fingerprint_secrets", "max_in_flight", "replay_header", "store_timeout", "carry"];

impl Options {
    /// Reads the tokens between the parentheses of the attribute.
    pub(crate) fn parse(tokens: TokenStream, flavour: Flavour, errors: &mut Errors) -> Self {
        let mut options = Self::default();
        collect_words(tokens.clone(), &mut options.mentioned);
        let read = |input: ParseStream<'_>| {
            while !input.is_empty() {
                if let Err(error) = options.parse_one(input, flavour) {
                    errors.push(error);
                    skip_to_comma(input);
                } else if !input.is_empty() && !input.peek(Token![,]) {
                    errors.push(input.error("expected `,` before the next option"));
                    if input.peek(Ident::peek_any) {
                        continue;
                    }
                    skip_to_comma(input);
                }
                if !input.is_empty() {
                    input.parse::<Token![,]>()?;
                }
            }
            Ok(())
        };
        if let Err(error) = read.parse2(tokens) {
            errors.push(error);
        }
        options
    }

    /// Where an option was named, if it was.
    pub(crate) fn given(&self, name: &str) -> Option<Span> {
        self.given.iter().find(|given| *given == name).map(Ident::span)
    }

    /// Whether an option's value says this word.
    pub(crate) fn mentions(&self, word: &Ident) -> bool {
        self.mentioned.contains(word)
    }

    /// The policy chosen for an option, if it was.
    pub(crate) fn policy(&self, option: &str) -> Option<&Policy> {
        self.policies.iter().find(|policy| policy.option() == option)
    }

    fn parse_one(&mut self, input: ParseStream<'_>, flavour: Flavour) -> syn::Result<()> {
        if !input.peek(Ident::peek_any) {
            return Err(input.error("expected an option, such as `ttl = \"24h\"`"));
        }
        let name = Ident::parse_any(input)?;
        let text = name.to_string();
        check_name(&name, &text, flavour)?;
        let again = self.given(&text).is_some();
        self.given.push(name.clone());
        self.parse_value(input, &name, &text)?;
        if again {
            return Err(syn::Error::new(name.span(), format!("`{text}` is given twice")));
        }
        Ok(())
    }

    fn parse_value(&mut self, input: ParseStream<'_>, name: &Ident, text: &str) -> syn::Result<()> {
        if FLAGS.contains(&text) || http::FLAGS.contains(&text) {
            return flag(input, text);
        }
        if text == "skip" {
            self.skip.extend(names(input, name)?);
            return Ok(());
        }
        if !input.peek(Token![=]) {
            return Err(syn::Error::new(name.span(), format!("`{text}` needs a value: `{}`", example(text))));
        }
        input.parse::<Token![=]>()?;
        if input.is_empty() || input.peek(Token![,]) {
            return Err(syn::Error::new(name.span(), format!("`{text}` needs a value: `{}`", example(text))));
        }
        if text == "crate" {
            self.krate = Some(crate_path(input)?);
            return Ok(());
        }
        if text == "transaction" {
            self.transaction = Some(transaction(input)?);
            return Ok(());
        }
        let value: Expr = input.parse()?;
        if let Some(time) = TIMES.iter().find(|time| *time == &text) {
            self.times.push((time, Time::parse(text, value)?));
            return Ok(());
        }
        if let Some(choices) = CHOICES.iter().find(|choices| choices.option == text) {
            self.policies.push(Policy::parse(choices, &value)?);
            return Ok(());
        }
        if let Some(option) = http::VALUES.iter().find(|option| *option == &text) {
            http::check(text, &value)?;
            self.http.push((option, value));
            return Ok(());
        }
        match text {
            "key" => self.key = Some(KeySource::parse(value)?),
            "scope" if is_word(&value, "shared") => self.scope = Some(Scope::Shared),
            "scope" => self.scope = Some(Scope::Expr(value)),
            "operation" => self.operation = Some(value),
            "engine" => self.engine = Some(value),
            "fingerprint" if is_word(&value, "none") => self.fingerprint = Some(Fingerprint::Nothing),
            "fingerprint" if is_word(&value, "raw") => self.fingerprint = Some(Fingerprint::Raw),
            "fingerprint" => self.fingerprint = Some(Fingerprint::Expr(value)),
            "store_if" => self.store_if = Some(value),
            _ => {}
        }
        Ok(())
    }
}

fn check_name(name: &Ident, text: &str, flavour: Flavour) -> syn::Result<()> {
    let refuse = |message: String| Err(syn::Error::new(name.span(), message));
    if NAMES.contains(&text) {
        return Ok(());
    }
    if OF_THE_ENGINE.contains(&text) {
        return refuse(format!(
            "`{text}` is a setting of the engine, for all its operations; set it where the engine is built"
        ));
    }
    if text == "header" || text == "key_header" {
        return refuse("a key from another header is written `key = header(\"X-Request-Key\")`".to_owned());
    }
    let offered = || NAMES.into_iter().filter(move |name| is_offered(name, flavour));
    if let Some(near) = nearest(text, offered()) {
        return refuse(format!("unknown option `{text}`; did you mean `{near}`?"));
    }
    let all: Vec<_> = offered().map(|name| format!("`{name}`")).collect();
    refuse(format!("unknown option `{text}`; the options are {}", all.join(", ")))
}

fn is_offered(name: &str, flavour: Flavour) -> bool {
    match flavour {
        Flavour::Plain => name != "store_if" && http::names().all(|of_handlers| of_handlers != name),
        Flavour::Axum | Flavour::Actix => name != "store_err" && name != "skip",
    }
}

/// How an option is written.
fn example(name: &str) -> &'static str {
    match name {
        "key" => "key = msg.id",
        "ttl" => "ttl = \"24h\"",
        "scope" => "scope = user.id",
        "operation" => "operation = \"payments.create\"",
        "engine" => "engine = app.idem",
        "fingerprint" => "fingerprint = (order.id, order.total)",
        "lease" => "lease = \"30s\"",
        "max_run" => "max_run = \"15m\"",
        "tombstone_ttl" => "tombstone_ttl = \"30d\"",
        "in_flight" => "in_flight = wait(\"5s\")",
        "expired" => "expired = reject",
        "on_crash" => "on_crash = reject",
        "on_disconnect" => "on_disconnect = cancel",
        "on_store_error" => "on_store_error = reject",
        "missing" => "missing = reject",
        "syntax" => "syntax = strict",
        "format" => "format = uuid",
        "max_len" => "max_len = 64",
        "fingerprint_headers" => "fingerprint_headers = [\"X-Version\"]",
        "max_request_bytes" => "max_request_bytes = 64 * 1024",
        "max_response_bytes" => "max_response_bytes = 64 * 1024",
        "mismatch_status" => "mismatch_status = 409",
        "docs_url" => "docs_url = \"https://example.org/docs/idempotency\"",
        "render_errors" => "render_errors = house_style",
        "on_replay" => "on_replay = |replay| count(replay.operation())",
        "expiry_header" => "expiry_header = \"X-Expires\"",
        "store_if" => "store_if = |response| response.status.is_success()",
        "crate" => "crate = my_idem",
        _ => "transaction = tx",
    }
}

/// `rebind`, and nothing after it.
fn flag(input: ParseStream<'_>, name: &str) -> syn::Result<()> {
    if input.is_empty() || input.peek(Token![,]) {
        return Ok(());
    }
    Err(input.error(format!("`{name}` stands alone: write `{name}`, or leave it out")))
}

const SKIP_USAGE: &str = "`skip` takes the names of arguments in parentheses: `skip(pool, idem)`";

/// `skip(a, b)`
fn names(input: ParseStream<'_>, name: &Ident) -> syn::Result<Vec<Ident>> {
    if !input.peek(syn::token::Paren) {
        return Err(syn::Error::new(name.span(), SKIP_USAGE));
    }
    let content;
    parenthesized!(content in input);
    let names = Punctuated::<Ident, Token![,]>::parse_terminated_with(&content, |content| {
        if content.peek(Ident::peek_any) { Ident::parse_any(content) } else { Err(content.error(SKIP_USAGE)) }
    })?;
    if names.is_empty() {
        return Err(syn::Error::new(name.span(), SKIP_USAGE));
    }
    Ok(names.into_iter().collect())
}

fn crate_path(input: ParseStream<'_>) -> syn::Result<Path> {
    if input.peek(syn::LitStr) {
        return Err(input.error("`crate` takes a path without quotes: `crate = my_idem`"));
    }
    Path::parse_mod_style(input)
}

/// The name that the body knows its transaction by.
fn transaction(input: ParseStream<'_>) -> syn::Result<Ident> {
    const USAGE: &str =
        "`transaction` takes the name that the body calls its transaction: `transaction = tx`";
    let name: Ident = input.parse().map_err(|error| syn::Error::new(error.span(), USAGE))?;
    if input.is_empty() || input.peek(Token![,]) { Ok(name) } else { Err(input.error(USAGE)) }
}

/// Whether tokens say a word.
pub(crate) fn says(tokens: &TokenStream, word: &Ident) -> bool {
    let mut words = HashSet::new();
    collect_words(tokens.clone(), &mut words);
    words.contains(word)
}

fn collect_words(tokens: TokenStream, words: &mut HashSet<Ident>) {
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => {
                words.insert(ident);
            }
            TokenTree::Group(group) => collect_words(group.stream(), words),
            _ => {}
        }
    }
}

fn skip_to_comma(input: ParseStream<'_>) {
    while !input.is_empty() && !input.peek(Token![,]) {
        if input.parse::<TokenTree>().is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
