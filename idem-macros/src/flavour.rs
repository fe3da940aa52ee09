//! The flavours of the attribute.

/// What an annotated function is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flavour {
    /// Any async function that returns a `Result`; its `Ok` value is stored.
    Plain,
    /// A handler of axum; the request is captured and the response is stored as bytes.
    Axum,
    /// The same for a handler of actix-web.
    Actix,
}

impl Flavour {
    /// Whether it is for handlers, which have a request and make a response.
    pub(crate) fn is_http(self) -> bool {
        self != Self::Plain
    }
}
