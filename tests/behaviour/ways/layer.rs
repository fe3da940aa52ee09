//! By the layer: bare handlers, and around them what the annotated ones say of themselves.

use axum::body::Bytes;
use axum::extract::{MatchedPath, State};
use axum::response::Response;
use axum::routing::any;
use axum::{Router, http::request::Parts};
use idem::tower::IdempotencyLayer;

use super::Routes;
use super::rules::{Rule, rule};
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
        // What has no rule is not by this way, and its cases say so above.
        let handler = if rule(&path).is_some() { any(bare) } else { annotated };
        application.route(&path, handler)
    });
    unprotected.layer(layer)
}
