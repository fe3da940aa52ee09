//! An application of actix-web that does the same over HTTP as the one of axum.

use std::thread;
use std::time::Duration;

use actix_web::body::BoxBody;
use actix_web::dev::{ServerHandle, ServiceRequest, ServiceResponse};
use actix_web::error::{ErrorBadRequest, InternalError, JsonPayloadError};
use actix_web::http::StatusCode;
use actix_web::http::header::HeaderValue;
use actix_web::middleware::{Next, from_fn};
use actix_web::web::{Data, JsonConfig, PathConfig, PayloadConfig, ServiceConfig};
use actix_web::{App as ActixApp, Error, HttpMessage as _, HttpResponse, HttpServer};
use axum::body::{Body, Bytes, to_bytes};
use axum::response::Response;
use http_body::Body as _;
use idem::actix::Mark;
use tracing::dispatcher;

use super::Serving;
use crate::server::{App, OWN_PAGE};

/// The most that extractors read: more than idem ever lets pass.
const BODIES: usize = 64 * 1024 * 1024;

/// A server in a thread of its own; it ends with its value.
pub(super) struct Running(ServerHandle);

impl Drop for Running {
    fn drop(&mut self) {
        // It is told at once; nobody waits for its answer.
        drop(self.0.stop(false));
    }
}

/// Serves an application.
pub(super) fn serve(app: &App, routes: impl Fn(&mut ServiceConfig) + Clone + Send + 'static) -> Serving {
    let app = Data::new(app.clone());
    // Whoever listens to what this thread logs hears the workers, too.
    let logs = dispatcher::get_default(Clone::clone);
    let server = HttpServer::new(move || {
        std::mem::forget(dispatcher::set_default(&logs));
        ActixApp::new()
            .app_data(app.clone())
            .app_data(PayloadConfig::new(BODIES))
            .app_data(JsonConfig::default().limit(BODIES).error_handler(|error, _| rejected(error)))
            .app_data(PathConfig::default().error_handler(|error, _| ErrorBadRequest(error)))
            .configure(routes.clone())
            .wrap(from_fn(front_door))
    });
    // A busy machine may leave a connection alone for longer than the usual 5 seconds.
    let patience = Duration::from_mins(10);
    let server = server.keep_alive(patience).client_request_timeout(patience);
    let server = server.workers(2).disable_signals().bind(("127.0.0.1", 0)).unwrap();
    let address = server.addrs()[0];
    let server = server.run();
    let running = Running(server.handle());
    thread::spawn(move || actix_web::rt::System::new().block_on(server));
    Serving { address, running: Some(running) }
}

/// What axum answers to JSON that it cannot extract.
fn rejected(error: JsonPayloadError) -> Error {
    let status = match &error {
        JsonPayloadError::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        JsonPayloadError::Deserialize(error) if error.is_data() => StatusCode::UNPROCESSABLE_ENTITY,
        _ => StatusCode::BAD_REQUEST,
    };
    InternalError::new(error, status).into()
}

/// Authentication, the application's own answer to a panic, and a look at who hangs up.
async fn front_door(
    app: Data<App>,
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse, Error> {
    let token = request.headers().get("authorization").and_then(|value| value.to_str().ok());
    let caller = match app.admit(token) {
        Ok(caller) => caller,
        Err((status, text)) => {
            let refused = HttpResponse::build(StatusCode::from_u16(status.as_u16()).unwrap()).body(text);
            return Ok(request.into_response(refused));
        }
    };
    request.extensions_mut().insert(caller);
    let answered = app.answer(async move { next.call(request).await }).await;
    answered.unwrap_or_else(|| {
        let page = HttpResponse::InternalServerError().body(OWN_PAGE);
        Err(InternalError::from_response("a handler has panicked", page).into())
    })
}

/// What every handler here does.
pub(super) async fn work(app: &App, body: Bytes) -> HttpResponse {
    of_axum(app.work(body).await).await
}

/// The same response, as one of actix-web.
async fn of_axum(response: Response) -> HttpResponse {
    let (mut parts, body) = response.into_parts();
    let mut builder = HttpResponse::build(StatusCode::from_u16(parts.status.as_u16()).unwrap());
    for (name, value) in &parts.headers {
        builder.append_header((name.as_str(), HeaderValue::from_bytes(value.as_bytes()).unwrap()));
    }
    let mut response = if body.size_hint().exact().is_some() {
        builder.body(to_bytes(body, usize::MAX).await.unwrap())
    } else {
        builder.streaming(Body::into_data_stream(body))
    };
    if let Some(mark) = parts.extensions.remove::<Mark>() {
        response.extensions_mut().insert(mark);
    }
    response
}
