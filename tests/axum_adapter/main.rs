//! The axum adapter: what it captures, what it keeps, and what a client gets.
#![cfg(all(feature = "axum", feature = "memory"))]

mod attribute;
mod connection;
mod harness;
mod options;
mod request;
mod response;
