//! Names of the user's that could clash with those of the expansion.

#![deny(warnings)]
#![no_implicit_prelude]
#![allow(non_upper_case_globals, dead_code, unused_imports, unused_macros)]

mod user {
    // Whatever the expansion says, it must not mean these.
    pub struct Result;
    pub struct Ok;
    pub struct Err;
    pub struct Some;
    pub struct Box;
    pub struct Option;
    pub trait From {}
    pub trait Into {}
    pub trait Future {}
    pub trait Send {}
    pub struct Idempotency;
    pub struct Call;
    pub mod core {}
    pub mod std {}
    pub mod idem {}
    pub const None: u8 = 1;
    pub fn drop() {}
}

use self::user::*;

macro_rules! concat {
    ($($anything:tt)*) => {
        compile_error!("the user's own")
    };
}
macro_rules! module_path {
    ($($anything:tt)*) => {
        compile_error!("the user's own")
    };
}
macro_rules! line {
    ($($anything:tt)*) => {
        compile_error!("the user's own")
    };
}

#[::idem::idempotent(key = (key, fp), ttl = "1h", engine = engine, skip(engine, body, call, run))]
async fn plain(
    key: &str,
    fp: u32,
    engine: &::idem::Idempotency,
    body: u32,
    call: u32,
    run: u32,
) -> ::std::result::Result<u32, ::idem::Error> {
    let _ = (key, engine);
    ::std::result::Result::Ok(fp + body + call + run)
}

#[::idem::axum::idempotent(key = header, ttl = "1h", scope = shared, engine = engine)]
async fn handler(
    ::axum::extract::State(engine): ::axum::extract::State<::idem::Idempotency>,
    key: ::axum::http::Method,
    call: ::axum::http::HeaderMap,
    run: ::axum::http::Uri,
    body: ::std::string::String,
) -> ::std::result::Result<::std::string::String, ::axum::http::StatusCode> {
    let (request, response, outcome) = (key, call, run);
    let _ = (request, response, outcome);
    ::std::result::Result::Ok(body)
}

#[::idem::idempotent(key = header, ttl = "1h")]
async fn an_argument_called_header(header: u32) -> ::std::result::Result<u32, ::idem::Error> {
    ::std::result::Result::Ok(header)
}

#[::idem::axum::idempotent(key = (header.as_str()), ttl = "1h", scope = (shared.as_str()), fingerprint = (none))]
async fn words_in_parentheses_are_names(
    header: ::axum::http::Method,
    shared: ::axum::http::Method,
    none: ::std::string::String,
) {
    ::std::mem::drop((header, none));
    let _ = shared;
}

#[::core::prelude::v1::test]
fn they_mean_what_they_meant() {
    let _: ::axum::Router<::idem::Idempotency> =
        ::axum::Router::new().route("/", ::axum::routing::post(handler));
    let runtime = ::tokio::runtime::Builder::new_current_thread().build().unwrap();
    let engine = ::idem::Idempotency::new(::idem::MemoryStore::new());
    for _ in 0..2 {
        let sum = runtime.block_on(plain("k", 1, &engine, 2, 3, 4)).unwrap();
        ::std::assert_eq!(sum, 10);
    }
    let replayed = runtime.block_on(plain("k", 1, &engine, 0, 0, 0)).unwrap();
    ::std::assert_eq!(replayed, 10);
}
