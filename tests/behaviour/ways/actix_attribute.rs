//! By the attribute, on handlers of actix-web: the twins of those of axum.

use actix_web::body::BoxBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::middleware::{Next, from_fn};
use actix_web::web::{self, Bytes, Data, Json, Path, ReqData, ServiceConfig};
use actix_web::{Error, HttpResponse, Route};
use idem::actix::{Refused, idempotent};
use serde::Deserialize;
use uuid::Uuid;

use super::actix::work;
use crate::server::{App, Caller};

pub(super) const NOT_HERE: &[(&str, &str)] = &[];

/// Handlers that do what every handler here does, each with options of its own.
macro_rules! handlers {
    ($app:ident $caller:ident $body:ident: $($name:ident($($option:tt)+);)+) => {$(
        #[allow(unused_variables)]
        #[idempotent(key = header, engine = $app.idem, $($option)+)]
        async fn $name($app: Data<App>, $caller: ReqData<Caller>, $body: Bytes) -> HttpResponse {
            work(&$app, $body).await
        }
    )+};
}

handlers! { app caller body:
    charge(ttl = app.ttl, scope = caller.id, operation = "charges.create");
    once_and_for_all(
        ttl = app.ttl, scope = caller.id, operation = "charges.create", expired = reject, tombstone_ttl = "1s"
    );
    wait(ttl = "24h", scope = caller.id, operation = "charges.wait", in_flight = wait("60s"));
    wait_briefly(ttl = "24h", scope = caller.id, in_flight = wait("300ms"));
    run_anyway(ttl = "24h", scope = caller.id, on_store_error = run);
    briefly_leased(ttl = "24h", scope = caller.id, operation = "charges.brief", lease = "400ms");
    cancelled(ttl = "24h", scope = caller.id, operation = "charges.cancelled", on_disconnect = cancel);
    leased(ttl = "24h", scope = caller.id, operation = "charges.leased", lease = "800ms");
    bounded(ttl = "24h", scope = caller.id, max_run = "400ms");
    in_place(ttl = "24h", scope = caller.id, operation = "charges.inline", lease = "700ms", inline);
    at_most_once(
        ttl = "24h", scope = caller.id, operation = "payouts.create", on_crash = reject, lease = "1s",
        max_run = "2s", inline
    );
    store_server_errors(ttl = "24h", scope = caller.id, store_if = |response| response.status.is_server_error());
    rebinding(ttl = "24h", scope = caller.id, rebind);
    refund(ttl = "24h", scope = caller.id, operation = "charges.refund");
    deliver(ttl = "24h", scope = shared, operation = "messages.deliver");
    unpinned(ttl = "24h", scope = caller.id);
    blind(ttl = "24h", scope = caller.id);
    anything(ttl = "24h", scope = caller.id);
    run_if_missing(ttl = "24h", scope = caller.id, missing = run);
    derive_if_missing(ttl = "24h", scope = caller.id, missing = derive);
    uncompared(ttl = "24h", scope = shared, fingerprint = none);
    by_bytes(ttl = "24h", scope = shared, fingerprint = raw);
}

#[idempotent(key = header("X-Message-Id"), ttl = "24h", scope = shared, engine = app.idem)]
async fn by_other_header(app: Data<App>, body: Bytes) -> HttpResponse {
    work(&app, body).await
}

#[derive(Deserialize)]
struct Order {
    id: String,
    customer: u32,
    reference: Option<String>,
}

#[derive(Deserialize)]
struct Priced {
    total: u64,
}

#[idempotent(key = order.id, ttl = "24h", scope = shared, engine = app.idem)]
async fn by_field(app: Data<App>, Json(order): Json<Order>) -> HttpResponse {
    work(&app, order.id.into()).await
}

#[idempotent(key = order.reference, ttl = "24h", scope = shared, engine = app.idem)]
async fn by_option(app: Data<App>, Json(order): Json<Order>) -> HttpResponse {
    work(&app, order.id.into()).await
}

#[idempotent(key = (order.customer, order.id), ttl = "24h", scope = shared, engine = app.idem)]
async fn by_tuple(app: Data<App>, Json(order): Json<Order>) -> HttpResponse {
    work(&app, order.id.into()).await
}

#[idempotent(key = header, ttl = "24h", scope = shared, engine = app.idem, fingerprint = order.total)]
async fn by_total(app: Data<App>, Json(order): Json<Priced>) -> HttpResponse {
    work(&app, order.total.to_string().into()).await
}

#[idempotent(key = *number, ttl = "24h", scope = shared, engine = app.idem)]
async fn by_path(app: Data<App>, number: Path<u64>, body: Bytes) -> HttpResponse {
    work(&app, body).await
}

#[idempotent(key = Uuid::parse_str(&id), ttl = "24h", scope = shared, engine = app.idem)]
async fn by_uuid(app: Data<App>, id: Path<String>, body: Bytes) -> HttpResponse {
    work(&app, body).await
}

#[idempotent(key = header, ttl = "24h", scope = caller.id, engine = app.idem)]
async fn typed(
    app: Data<App>,
    caller: ReqData<Caller>,
    _: Path<u32>,
    Json(order): Json<Priced>,
) -> HttpResponse {
    work(&app, order.total.to_string().into()).await
}

/// Two functions of one name in one module: their names alone do not tell them apart.
fn twins() -> [Route; 2] {
    let one = {
        #[idempotent(key = header, ttl = "24h", scope = shared, engine = app.idem)]
        async fn twin(app: Data<App>, body: Bytes) -> HttpResponse {
            work(&app, body).await
        }
        web::post().to(twin)
    };
    let other = {
        #[idempotent(key = header, ttl = "24h", scope = shared, engine = app.idem)]
        async fn twin(app: Data<App>, body: Bytes) -> HttpResponse {
            work(&app, body).await
        }
        web::post().to(twin)
    };
    [one, other]
}

/// An application's own style of errors.
async fn plain(request: ServiceRequest, next: Next<BoxBody>) -> Result<ServiceResponse, Error> {
    let response = next.call(request).await?;
    let code = response.response().extensions().get::<Refused>().map(|refused| refused.error().code());
    let status = response.status();
    Ok(match code {
        Some(code) => response.into_response(HttpResponse::build(status).body(code)),
        None => response,
    })
}

pub(super) fn routes(config: &mut ServiceConfig) {
    let [one, other] = twins();
    config
        .route("/charges", web::post().to(charge))
        .route("/once", web::post().to(once_and_for_all))
        .route("/wait", web::post().to(wait))
        .route("/wait-briefly", web::post().to(wait_briefly))
        .route("/anyway", web::post().to(run_anyway))
        .route("/brief", web::post().to(briefly_leased))
        .route("/cancelled", web::post().to(cancelled))
        .route("/leased", web::post().to(leased))
        .route("/bounded", web::post().to(bounded))
        .route("/inline", web::post().to(in_place))
        .route("/payouts", web::post().to(at_most_once))
        .route("/mostly", web::post().to(store_server_errors))
        .route("/rebind", web::post().to(rebinding))
        .route("/refunds", web::post().to(refund))
        .route("/messages", web::post().to(deliver))
        .route("/unpinned", web::post().to(unpinned))
        .route("/blind", web::route().to(blind))
        .route("/any", web::route().to(anything))
        .route("/run", web::post().to(run_if_missing))
        .route("/derive", web::post().to(derive_if_missing))
        .route("/none", web::post().to(uncompared))
        .route("/raw", web::post().to(by_bytes))
        .route("/deliveries", web::post().to(by_other_header))
        .route("/field", web::post().to(by_field))
        .route("/option", web::post().to(by_option))
        .route("/tuple", web::post().to(by_tuple))
        .route("/total", web::post().to(by_total))
        .route("/orders/{number}", web::post().to(by_path))
        .route("/typed/{number}", web::post().to(typed))
        .route("/m/{id}", web::post().to(by_uuid))
        .service(web::resource("/styled").wrap(from_fn(plain)).route(web::post().to(once_and_for_all)))
        .route("/a", one)
        .route("/b", other);
}
