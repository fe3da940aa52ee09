//! Where the key comes from.

use proc_macro2::Span;
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{Expr, ExprCall, ExprLit, Lit, LitStr};

/// Where the key comes from.
pub(crate) enum KeySource {
    /// `header` or `header("X-Name")`: a header of the request.
    Header {
        /// The word `header`.
        span: Span,
        /// The header's name; `Idempotency-Key` otherwise.
        name: Option<LitStr>,
        /// The same read as an expression, for functions that have an argument called `header`.
        expr: Expr,
    },
    /// An expression over the arguments.
    Expr(Expr),
}

impl KeySource {
    pub(crate) fn parse(value: Expr) -> syn::Result<Self> {
        if is_word(&value, "header") {
            return Ok(Self::Header { span: value.span(), name: None, expr: value });
        }
        let Expr::Call(ExprCall { func, args, .. }) = &value else {
            return Ok(Self::Expr(value));
        };
        if !is_word(func, "header") {
            return Ok(Self::Expr(value));
        }
        match args.first() {
            Some(Expr::Lit(ExprLit { lit: Lit::Str(name), .. })) if args.len() == 1 => {
                check_header_name(name)?;
                Ok(Self::Header { span: func.span(), name: Some(name.clone()), expr: value })
            }
            _ => Err(syn::Error::new_spanned(
                value,
                "`header` takes the header's name as a literal: `header(\"X-Request-Key\")`; for a function of yours \
                 write it in parentheses: `key = (header(..))`",
            )),
        }
    }
}

/// Whether an expression is this one word.
pub(crate) fn is_word(expr: &Expr, word: &str) -> bool {
    matches!(expr, Expr::Path(path) if path.qself.is_none() && path.path.is_ident(word))
}

pub(super) fn check_header_name(name: &LitStr) -> syn::Result<()> {
    let text = name.value();
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if text.is_empty() || !text.chars().all(token) {
        return Err(syn::Error::new_spanned(
            name.to_token_stream(),
            "not a header name; use letters, digits and `-`, as in `\"X-Request-Key\"`",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse_quote;

    #[test]
    fn header_is_a_word_of_its_own() {
        assert!(matches!(KeySource::parse(parse_quote!(header)), Ok(KeySource::Header { name: None, .. })));
        assert!(matches!(
            KeySource::parse(parse_quote!(header("X-Key"))),
            Ok(KeySource::Header { name: Some(name), .. }) if name.value() == "X-Key"
        ));
    }

    #[test]
    fn everything_else_is_an_expression() {
        for expr in [
            parse_quote!(msg.id),
            parse_quote!((header)),
            parse_quote!(header.id),
            parse_quote!(header::of(x)),
            parse_quote!((a, b)),
        ] {
            assert!(matches!(KeySource::parse(expr), Ok(KeySource::Expr(_))));
        }
    }

    #[test]
    fn a_name_that_no_header_can_have_is_refused() {
        for expr in
            [parse_quote!(header("")), parse_quote!(header("X Key")), parse_quote!(header("Schlüssel"))]
        {
            assert!(KeySource::parse(expr).is_err());
        }
        assert!(KeySource::parse(parse_quote!(header(NAME))).is_err());
        assert!(KeySource::parse(parse_quote!(header())).is_err());
        assert!(KeySource::parse(parse_quote!(header("X-Key", "X-Other"))).is_err());
    }
}
