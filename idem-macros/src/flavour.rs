//! The two flavours of the attribute.

/// What an annotated function is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flavour {
    /// Any async function that returns a `Result`; its `Ok` value is stored.
    Plain,
    /// A handler of axum; the request is captured and the response is stored as bytes.
    Http,
}
