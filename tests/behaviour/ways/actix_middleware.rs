//! By the middleware: bare handlers of actix-web, and around them what the annotated ones say of themselves.

use actix_web::dev::ServiceRequest;
use actix_web::web::{self, Bytes, Data, ServiceConfig};
use actix_web::{HttpMessage as _, HttpResponse};
use axum::http::Request;
use idem::actix::IdempotencyMiddleware;

use super::actix::work;
use super::rules::{RULES, Rule, rule};
use crate::server::{App, Caller};

/// It does not apply where the layer does not, for the same reasons.
pub(super) use super::layer::NOT_HERE;

fn rule_of(request: &ServiceRequest) -> Option<&'static Rule> {
    rule(&request.match_pattern()?)
}

async fn bare(app: Data<App>, body: Bytes) -> HttpResponse {
    work(&app, body).await
}

pub(super) fn routes(app: &App) -> impl Fn(&mut ServiceConfig) + Clone + Send + 'static {
    let ttl = app.ttl;
    let once = IdempotencyMiddleware::new(&app.idem)
        .operations(|request| Some(rule_of(request)?.operation))
        .scope(|request| {
            let is_shared = rule_of(request).is_some_and(|rule| rule.is_shared);
            let caller = request.extensions().get::<Caller>().map(|caller| caller.id.clone());
            if is_shared { Some("everybody".to_owned()) } else { caller }
        })
        .call(move |call, request, body| {
            let whole = Request::builder().uri(request.uri().to_string()).body(body.clone()).unwrap();
            match rule_of(request) {
                Some(rule) => (rule.change)(call.ttl(ttl), &whole),
                None => call,
            }
        });
    move |config| {
        let protected =
            RULES.iter().fold(web::scope(""), |scope, rule| scope.route(rule.path, web::route().to(bare)));
        config.service(protected.wrap(once.clone()));
    }
}
