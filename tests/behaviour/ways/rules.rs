//! What the annotated handlers say of themselves, for ways in that stand around bare ones.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::Request;
use idem::tower::HttpCall;
use idem::{Expired, InFlight, Missing, OnCrash, OnDisconnect, OnStoreError};
use serde_json::Value;
use uuid::Uuid;

/// What the annotated handler of a route says of itself.
pub(super) struct Rule {
    pub(super) path: &'static str,
    pub(super) operation: &'static str,
    pub(super) is_shared: bool,
    pub(super) change: Change,
}

type Change = fn(HttpCall, &Request<Bytes>) -> HttpCall;

const fn of_caller(path: &'static str, operation: &'static str, change: Change) -> Rule {
    Rule { path, operation, is_shared: false, change }
}

const fn shared(path: &'static str, operation: &'static str, change: Change) -> Rule {
    Rule { path, operation, is_shared: true, change }
}

const MS: fn(u64) -> Duration = Duration::from_millis;

pub(super) const RULES: &[Rule] = &[
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

/// The rule of a route; `None` if it is not by these ways.
pub(super) fn rule(path: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.path == path)
}
