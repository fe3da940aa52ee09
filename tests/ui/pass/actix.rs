//! Handlers of actix-web with all kinds of extractors and answers.

#![deny(warnings)]

use actix_web::{
    App, Either, FromRequest, HttpRequest, HttpResponse, Responder, Scope, delete, dev, error, get, post, web,
};
use idem::actix::idempotent;
use idem::{Idempotency, MemoryStore};
use serde::Deserialize;
use std::future::{Ready, ready};
use std::rc::Rc;

#[derive(Deserialize)]
struct Dto {
    id: u64,
}

struct User {
    id: u64,
}

impl FromRequest for User {
    type Error = error::Error;
    type Future = Ready<Result<Self, Self::Error>>;

    fn from_request(_: &HttpRequest, _: &mut dev::Payload) -> Self::Future {
        ready(Ok(Self { id: 1 }))
    }
}

/// Its documentation stays.
#[post("/above")]
#[idempotent(key = header, ttl = "24h", scope = user.id, engine = idem)]
async fn above(idem: web::Data<Idempotency>, user: User, web::Json(dto): web::Json<Dto>) -> impl Responder {
    format!("{} {}", user.id, dto.id)
}

#[idempotent(key = header, ttl = "24h", scope = shared, engine = idem)]
#[post("/below")]
async fn below(idem: web::Data<Idempotency>, dto: web::Form<Dto>) -> Result<String, error::Error> {
    if dto.id == 0 {
        return Err(error::ErrorBadRequest("none"));
    }
    Ok(dto.id.to_string())
}

#[idempotent(key = path.1, ttl = "24h", scope = path.0, engine = idem, operation = "orders.delete")]
#[delete("/{user}/{order}")]
async fn parts(
    idem: web::Data<Idempotency>,
    path: web::Path<(u64, String)>,
    web::Query(_): web::Query<Vec<(String, String)>>,
    request: HttpRequest,
    _body: web::Payload,
) -> HttpResponse {
    // Nothing here has to be sent to another thread.
    let path = Rc::new(request.path().to_owned());
    ready(()).await;
    HttpResponse::Ok().body(path.as_bytes().to_vec())
}

#[get("/nothing")]
#[idempotent(key = header, ttl = "24h", scope = shared)]
async fn nothing() -> &'static str {
    "nothing"
}

#[idempotent(key = header, ttl = "24h", scope = shared, engine = idem, operation = "generic", inline)]
async fn generic<T: FromRequest + 'static>(
    idem: web::Data<Idempotency>,
    value: Option<T>,
    json: Result<web::Json<Dto>, error::Error>,
    mut bytes: web::Bytes,
) -> Either<HttpResponse, (web::Bytes, actix_web::http::StatusCode)> {
    match (value, json) {
        (Some(_), Ok(web::Json(Dto { id: 1.. }))) => Either::Left(HttpResponse::Ok().finish()),
        _ => Either::Right((bytes.split_off(0), actix_web::http::StatusCode::ACCEPTED)),
    }
}

macro_rules! handler {
    ($name:ident, $extractor:ty) => {
        #[idempotent(key = header, ttl = "24h", scope = shared, engine = idem)]
        async fn $name(idem: web::Data<Idempotency>, _: $extractor) -> HttpResponse {
            HttpResponse::NoContent().finish()
        }
    };
}

handler!(of_a_macro, String);

#[allow(clippy::too_many_arguments)]
#[idempotent(key = header, ttl = "24h", scope = shared, engine = a)]
async fn sixteen(
    a: web::Data<Idempotency>,
    _b: String,
    _c: String,
    _d: String,
    _e: String,
    _f: String,
    _g: String,
    _h: String,
    _i: String,
    _j: String,
    _k: String,
    _l: String,
    _m: String,
    _n: String,
    _o: String,
    _p: String,
) -> HttpResponse {
    HttpResponse::Ok().finish()
}

#[test]
fn they_are_handlers() {
    let _ = App::new()
        .app_data(web::Data::new(Idempotency::new(MemoryStore::new())))
        .service(above)
        .service(below)
        .service(Scope::new("/orders").service(parts))
        .service(nothing)
        .route("/generic", web::post().to(generic::<String>))
        .route("/macro", web::post().to(of_a_macro))
        .route("/sixteen", web::post().to(sixteen));
}
