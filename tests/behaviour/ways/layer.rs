//! By the layer: bare handlers, and around them what the annotated ones say of themselves.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{MatchedPath, State};
use axum::http::Request;
use axum::response::Response;
use axum::routing::any;
use axum::{Router, http::request::Parts};
use idem::tower::{HttpCall, IdempotencyLayer};
use idem::{Expired, InFlight, Missing, OnCrash, OnDisconnect, OnStoreError};
use serde_json::Value;
use uuid::Uuid;

use super::Routes;
use crate::server::{App, Caller};

const A_FUNCTION: &str = "it is about functions, not about handlers";
const OF_THE_ATTRIBUTE: &str = "a layer is told its operations: tests/layer/rules.rs";

pub(super) const NOT_HERE: &[(&str, &str)] = &[
    ("an_operation_left_out_is_named_by_module_and_function", OF_THE_ATTRIBUTE),
    ("an_engine_refuses_one_unpinned_operation_from_two_places_in_the_source", OF_THE_ATTRIBUTE),
    ("the_renderer_of_errors_can_be_replaced", "it is a layer's business further out, the same for both"),
    ("of_a_plain_function_ok_is_stored_and_err_is_not", A_FUNCTION),
    ("with_store_err_an_err_is_stored_too", A_FUNCTION),
    (
        "what_an_extractor_rejects_claims_nothing_and_leaves_the_key_free",
        "a layer claims before extractors run; what it leaves: tests/layer/rejections.rs",
    ),
    ("a_value_whose_type_has_changed_is_an_error_and_never_a_second_run", A_FUNCTION),
    ("a_function_that_borrows_counts_as_crashed_when_it_is_dropped", A_FUNCTION),
    (
        "after_a_crash_duplicates_get_409_until_the_lease_ends_and_then_one_takes_over",
        "what crashes here is work in its caller's future, which a layer does not have; killed processes: \
         examples/payments/tests/payments/crash.rs",
    ),
];

/// What the annotated handler of a route says of itself.
struct Rule {
    path: &'static str,
    operation: &'static str,
    is_shared: bool,
    change: fn(HttpCall, &Request<Bytes>) -> HttpCall,
}

type Change = fn(HttpCall, &Request<Bytes>) -> HttpCall;

const fn of_caller(path: &'static str, operation: &'static str, change: Change) -> Rule {
    Rule { path, operation, is_shared: false, change }
}

const fn shared(path: &'static str, operation: &'static str, change: Change) -> Rule {
    Rule { path, operation, is_shared: true, change }
}

const MS: fn(u64) -> Duration = Duration::from_millis;

const RULES: &[Rule] = &[
    of_caller("/charges", "charges.create", |call, _| call),
    of_caller("/once", "charges.create", |call, _| call.expired(Expired::Reject).tombstone_ttl(MS(1000))),
    of_caller("/wait", "charges.wait", |call, _| call.in_flight(InFlight::Wait(MS(60_000)))),
    of_caller("/wait-briefly", "charges.wait", |call, _| call.in_flight(InFlight::Wait(MS(300)))),
    of_caller("/anyway", "charges.anyway", |call, _| call.on_store_error(OnStoreError::Run)),
    of_caller("/brief", "charges.brief", |call, _| call.lease(MS(400))),
    of_caller("/cancelled", "charges.cancelled", |call, _| call.on_disconnect(OnDisconnect::Cancel)),
    of_caller("/leased", "charges.leased", |call, _| call.lease(MS(800))),
    of_caller("/bounded", "charges.bounded", |call, _| call.max_run(MS(400))),
    of_caller("/inline", "charges.inline", |call, _| call.lease(MS(700))),
    of_caller("/payouts", "payouts.create", |call, _| {
        call.on_crash(OnCrash::Reject).lease(MS(1000)).max_run(MS(2000))
    }),
    of_caller("/mostly", "charges.mostly", |call, _| {
        call.store_if(|response| response.status.is_server_error())
    }),
    of_caller("/rebind", "charges.rebind", |call, _| call.rebind(true)),
    of_caller("/refunds", "charges.refund", |call, _| call),
    of_caller("/blind", "charges.blind", |call, _| call),
    of_caller("/any", "charges.any", |call, _| call),
    of_caller("/run", "charges.run", |call, _| call.missing(Missing::Run)),
    of_caller("/derive", "charges.derive", |call, _| call.missing(Missing::Derive)),
    shared("/total", "orders.total", |call, request| {
        call.fingerprint(&member(request, "total").and_then(|total| total.as_u64()))
    }),
    shared("/none", "orders.none", |call, _| call.unfingerprinted()),
    shared("/raw", "orders.raw", |call, _| call.fingerprint_raw()),
    shared("/messages", "messages.deliver", |call, _| call),
    shared("/deliveries", "messages.receive", |call, _| call.key_header(Some("X-Message-Id"))),
    shared("/field", "orders.field", |call, request| call.key(&text(request, "id"))),
    shared("/option", "orders.option", |call, request| call.key(&text(request, "reference"))),
    shared("/tuple", "orders.tuple", |call, request| {
        let customer = member(request, "customer").and_then(|customer| customer.as_u64());
        call.key(&(customer, text(request, "id")))
    }),
    shared("/orders/{number}", "orders.number", |call, request| call.key(&last(request).parse::<u64>().ok())),
    shared("/m/{id}", "orders.uuid", |call, request| call.key(&Uuid::parse_str(last(request)))),
];

/// A member of the request's JSON.
fn member(request: &Request<Bytes>, name: &str) -> Option<Value> {
    serde_json::from_slice::<Value>(request.body()).ok()?.get(name).cloned()
}

fn text(request: &Request<Bytes>, name: &str) -> Option<String> {
    member(request, name).and_then(|value| value.as_str().map(str::to_owned))
}

/// The last part of the path.
fn last(request: &Request<Bytes>) -> &str {
    request.uri().path().rsplit('/').next().unwrap_or_default()
}

fn rule(path: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.path == path)
}

fn rule_of(parts: &Parts) -> Option<&'static Rule> {
    rule(parts.extensions.get::<MatchedPath>()?.as_str())
}

async fn bare(State(app): State<App>, body: Bytes) -> Response {
    app.work(body).await
}

pub(super) fn router(app: &App, routes: Routes) -> Router<App> {
    let ttl = app.ttl;
    let layer = IdempotencyLayer::new(&app.idem)
        .operations(|parts| Some(rule_of(parts)?.operation))
        .scope(|parts| {
            let is_shared = rule_of(parts).is_some_and(|rule| rule.is_shared);
            let caller = parts.extensions.get::<Caller>().map(|caller| caller.id.clone());
            if is_shared { Some("everybody".to_owned()) } else { caller }
        })
        .call(move |call, request| {
            let path = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
            match rule(path) {
                Some(rule) => (rule.change)(call.ttl(ttl), request),
                None => call,
            }
        });
    let unprotected = routes.into_iter().fold(Router::new(), |application, (path, annotated)| {
        // What this file has no rule for is not by this way, and its cases say so above.
        let handler = if rule(&path).is_some() { any(bare) } else { annotated };
        application.route(&path, handler)
    });
    unprotected.layer(layer)
}
