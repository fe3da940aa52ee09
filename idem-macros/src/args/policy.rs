//! Options whose value is one of a few words.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;
use syn::spanned::Spanned;
use syn::{Expr, ExprCall};

use super::http;
use super::key::is_word;
use super::nearest::nearest;
use super::time::Time;

/// An option whose value is a word, and the enum that the word stands for.
pub(crate) struct Choices {
    pub(crate) option: &'static str,
    enumeration: &'static str,
    words: &'static [(&'static str, &'static str)],
}

/// All of them.
pub(crate) const CHOICES: [Choices; 8] = [
    Choices { option: "in_flight", enumeration: "InFlight", words: &[("reject", "Reject"), (WAIT, "Wait")] },
    Choices { option: "expired", enumeration: "Expired", words: &[("rerun", "Rerun"), ("reject", "Reject")] },
    Choices {
        option: "on_crash",
        enumeration: "OnCrash",
        words: &[("retry", "Retry"), ("reject", "Reject")],
    },
    Choices {
        option: "on_disconnect",
        enumeration: "OnDisconnect",
        words: &[("finish", "Finish"), ("cancel", "Cancel")],
    },
    Choices {
        option: "on_store_error",
        enumeration: "OnStoreError",
        words: &[("reject", "Reject"), ("run", "Run")],
    },
    Choices {
        option: "missing",
        enumeration: "Missing",
        words: &[("reject", "Reject"), ("run", "Run"), ("derive", "Derive")],
    },
    Choices {
        option: "syntax",
        enumeration: "Syntax",
        words: &[("lenient", "Lenient"), ("strict", "Strict")],
    },
    Choices {
        option: "format",
        enumeration: "Format",
        words: &[("any", "Any"), ("uuid", "Uuid"), ("uuidv7", "UuidV7")],
    },
];

/// The one word that takes an argument.
const WAIT: &str = "wait";

/// A choice made.
pub(crate) struct Policy {
    choices: &'static Choices,
    variant: &'static str,
    /// Where the word stands.
    pub(crate) span: Span,
    wait: Option<Time>,
}

impl Policy {
    pub(crate) fn parse(choices: &'static Choices, value: &Expr) -> syn::Result<Self> {
        if let Expr::Call(ExprCall { func, args, .. }) = value
            && choices.knows(WAIT)
            && is_word(func, WAIT)
            && let (Some(time), 1) = (args.first(), args.len())
        {
            let time = Time::parse("in_flight = wait(..)", time.clone())?;
            return Ok(Self { choices, variant: "Wait", span: func.span(), wait: Some(time) });
        }
        let word = match value {
            Expr::Path(path) => path.path.get_ident().map(ToString::to_string).unwrap_or_default(),
            _ => String::new(),
        };
        match choices.words.iter().find(|(known, _)| *known == word && *known != WAIT) {
            Some((_, variant)) => Ok(Self { choices, variant, span: value.span(), wait: None }),
            None => Err(syn::Error::new_spanned(value, choices.refusal(&word))),
        }
    }

    /// The option that was chosen for.
    pub(crate) fn option(&self) -> &'static str {
        self.choices.option
    }

    /// Whether only handlers have the option.
    pub(crate) fn is_of_http(&self) -> bool {
        http::names().any(|name| name == self.choices.option)
    }

    pub(crate) fn is(&self, option: &str, variant: &str) -> bool {
        self.choices.option == option && self.variant == variant
    }

    /// The choice as a value of its enum.
    pub(crate) fn expression(&self, krate: &syn::Path) -> TokenStream {
        let here = Span::mixed_site();
        let enumeration = Ident::new(self.choices.enumeration, here);
        let variant = Ident::new(self.variant, here);
        let argument = self.wait.as_ref().map(|time| {
            let time = time.expression();
            quote_spanned!(here=> (#time))
        });
        quote_spanned!(here=> #krate::__private::#enumeration::#variant #argument)
    }
}

impl Choices {
    fn knows(&self, word: &str) -> bool {
        self.words.iter().any(|(known, _)| *known == word)
    }

    fn refusal(&self, word: &str) -> String {
        let shown = |word: &str| {
            if word == WAIT { format!("`{WAIT}(\"5s\")`") } else { format!("`{word}`") }
        };
        let words: Vec<_> = self.words.iter().map(|(word, _)| shown(word)).collect();
        let meant = nearest(word, self.words.iter().map(|(word, _)| *word))
            .map(|near| format!("; did you mean {}?", shown(near)))
            .unwrap_or_default();
        format!("`{}` is one of {}{meant}", self.option, words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse_quote;

    fn policy(option: &str, value: &Expr) -> Result<String, String> {
        let choices = CHOICES.iter().find(|choices| choices.option == option).expect("an option");
        Policy::parse(choices, value)
            .map(|policy| policy.expression(&parse_quote!(::idem)).to_string().replace(' ', ""))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_word_becomes_a_variant() {
        assert_eq!(
            policy("on_crash", &parse_quote!(reject)).as_deref(),
            Ok("::idem::__private::OnCrash::Reject")
        );
        assert_eq!(
            policy("in_flight", &parse_quote!(wait("5s"))).as_deref(),
            Ok("::idem::__private::InFlight::Wait(::core::time::Duration::from_millis(5000u64))")
        );
    }

    #[test]
    fn another_word_is_answered_with_the_words_there_are() {
        assert_eq!(
            policy("expired", &parse_quote!(rejct)).unwrap_err(),
            "`expired` is one of `rerun`, `reject`; did you mean `reject`?"
        );
        assert_eq!(
            policy("in_flight", &parse_quote!(wait)).unwrap_err(),
            "`in_flight` is one of `reject`, `wait(\"5s\")`; did you mean `wait(\"5s\")`?"
        );
        assert_eq!(
            policy("missing", &parse_quote!(5)).unwrap_err(),
            "`missing` is one of `reject`, `run`, `derive`"
        );
        assert!(policy("on_crash", &parse_quote!(wait("5s"))).is_err());
    }

    #[test]
    fn a_wait_without_end_is_refused() {
        assert!(policy("in_flight", &parse_quote!(wait("0s"))).unwrap_err().contains("longer than zero"));
    }
}
