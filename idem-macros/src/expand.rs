//! Writes the one call that an annotated function stands for.
//!
//! What is generated has mixed-site spans and names that start with `__idem_`, full paths and no `use`: it sees nothing
//! of the user's names, and they see nothing of it. Tokens of the user keep their spans.

mod http;
mod pieces;
mod plain;

use proc_macro2::TokenStream;

use crate::args::Options;
use crate::flavour::Flavour;
use crate::signature::Function;
use pieces::Pieces;

/// Expands a function that validation found no fault with.
pub(crate) fn expand(options: &Options, function: Function, flavour: Flavour) -> TokenStream {
    let pieces = Pieces::new(options, &function, flavour);
    match flavour {
        Flavour::Plain => plain::expand(&pieces, options, function),
        Flavour::Axum => http::expand::<http::Axum>(&pieces, options, function),
        Flavour::Actix => http::expand::<http::Actix>(&pieces, options, function),
    }
}

#[cfg(test)]
mod tests;
