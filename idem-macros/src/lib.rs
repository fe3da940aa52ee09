//! The `#[idempotent]` attribute of idem.
//!
//! Use it through the facade, `idem-sdk`, which also documents it: [`macro@idempotent`] is `idem::idempotent`,
//! [`macro@idempotent_axum`] is `idem::axum::idempotent`, [`macro@idempotent_actix`] is `idem::actix::idempotent`. An annotated function is read in stages: `args` and
//! `signature` take attribute and function apart, `validate` finds every mistake, `expand` writes the call.

mod args;
mod errors;
mod expand;
mod flavour;
mod signature;
mod validate;

use proc_macro2::TokenStream;
use quote::quote;

use args::Options;
use errors::Errors;
use flavour::Flavour;
use signature::Function;

/// Makes an async function run once for each key.
///
/// The function returns `Result<T, E>`: `T` is stored and replayed, `E: From<idem::Error>` says why it was not run.
/// See the documentation of `idem::idempotent` for options and examples.
#[proc_macro_attribute]
pub fn idempotent(
    options: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    attribute(options.into(), &item.into(), Flavour::Plain).into()
}

/// Makes a handler of axum run once for each key.
///
/// Any extractors and any response will do: the request is captured, and the response is stored as bytes. See the
/// documentation of `idem::axum::idempotent` for options and examples.
#[proc_macro_attribute]
pub fn idempotent_axum(
    options: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    attribute(options.into(), &item.into(), Flavour::Axum).into()
}

/// Makes a handler of actix-web run once for each key.
///
/// Any extractors and any response will do: the request is captured, and the response is stored as bytes. See the
/// documentation of `idem::actix::idempotent` for options and examples.
#[proc_macro_attribute]
pub fn idempotent_actix(
    options: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    attribute(options.into(), &item.into(), Flavour::Actix).into()
}

fn attribute(options: TokenStream, item: &TokenStream, flavour: Flavour) -> TokenStream {
    let mut errors = Errors::default();
    let options = Options::parse(options, flavour, &mut errors);
    let function: Function = match syn::parse2(item.clone()) {
        Ok(function) => function,
        Err(error) => {
            errors.push(signature::no_function(item, error));
            let errors = errors.to_tokens();
            return quote!(#item #errors);
        }
    };
    validate::validate(&options, &function, flavour, &mut errors);
    if errors.is_empty() {
        return expand::expand(&options, function, flavour);
    }
    // The function as it was written, so that editors and the rest of the crate go on; what only the options use
    // (imports, arguments) is not to be warned about on top.
    let errors = errors.to_tokens();
    quote! {
        #[allow(unused, clippy::all, clippy::pedantic)]
        #function
        #errors
    }
}
