//! What the tests of the Redis store share.
#![allow(dead_code, unused_macros, unused_imports)]

/// A kind of store for the conformance suite.
///
/// The clock of Redis cannot be wound, so its time is waited for: a little more, since spans are rounded up.
macro_rules! subject {
    ($name:ident, $store:ty, $fresh:expr) => {
        struct $name;

        impl Subject for $name {
            type Store = $store;

            async fn fresh(&self) -> $store {
                $fresh
            }

            async fn pass(&self, span: std::time::Duration) {
                tokio::time::sleep(span + std::time::Duration::from_millis(5)).await;
            }
        }
    };
}
pub(crate) use subject;
