//! The adapter of actix-web, over real connections.
#![cfg(all(feature = "actix-web", feature = "memory"))]

mod attribute;
mod connection;
mod middleware;
mod request;
mod response;
mod server;
