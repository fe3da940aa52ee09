//! Lengths of time as options give them: a literal with units, or an expression.

use std::time::Duration;

use proc_macro2::TokenStream;
use quote::{ToTokens, quote_spanned};
use syn::{Expr, ExprLit, Lit};

use super::duration::{EXAMPLES, parse_duration};

/// How long something lasts.
#[derive(Clone)]
pub(crate) enum Time {
    /// Written as a literal and read at compile time.
    Literal(Duration),
    /// An expression of type `Duration`.
    Expr(Box<Expr>),
}

impl Time {
    /// Reads the value of the option `name`.
    pub(crate) fn parse(name: &str, value: Expr) -> syn::Result<Self> {
        let Expr::Lit(ExprLit { lit, .. }) = &value else {
            return Ok(Self::Expr(Box::new(value)));
        };
        let refuse = |why: String| Err(syn::Error::new_spanned(lit, format!("`{name}`: {why}")));
        match lit {
            Lit::Str(text) => match parse_duration(&text.value()) {
                Ok(time) => Ok(Self::Literal(time)),
                Err(why) => refuse(why),
            },
            Lit::Int(number) if number.suffix().is_empty() => {
                refuse(format!("a number has no unit; write a length of time such as \"{number}s\""))
            }
            _ => refuse(format!("expected a length of time such as {EXAMPLES}")),
        }
    }

    /// The length of time as an expression.
    pub(crate) fn expression(&self) -> TokenStream {
        let here = proc_macro2::Span::mixed_site();
        match self {
            // Whole milliseconds that fit, see `parse_duration`.
            Self::Literal(time) => {
                let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
                quote_spanned!(here=> ::core::time::Duration::from_millis(#millis))
            }
            Self::Expr(expr) => expr.to_token_stream(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_number_is_told_which_unit_it_may_want() {
        let error = Time::parse("ttl", syn::parse_quote!(86400)).err().expect("refused").to_string();
        assert_eq!(error, "`ttl`: a number has no unit; write a length of time such as \"86400s\"");
        for no_length in [syn::parse_quote!(5u64), syn::parse_quote!(1.5), syn::parse_quote!(true)] {
            let error = Time::parse("ttl", no_length).err().expect("refused").to_string();
            assert!(error.starts_with("`ttl`: expected a length of time such as"), "{error}");
        }
    }

    #[test]
    fn an_expression_is_passed_on() {
        let time = Time::parse("ttl", syn::parse_quote!(settings.ttl)).expect("an expression");
        assert_eq!(time.expression().to_string(), "settings . ttl");
    }
}
