//! An application as a user writes one, served over loopback TCP.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, post};
use axum::{Extension, Router};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use idem::axum::idempotent;
use idem::{Builder, Idempotency, Inspection, Key, RecordId, Scope, Store};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::faulty::{Faulty, Step};
use crate::stores::{Kind, Opened};
use crate::ways::{Routes, Serving, Way};

/// The store under test, with its steps counted and made to fail on command.
pub(crate) type TestStore = Faulty<Arc<dyn Store>>;

type Work = dyn Fn(Visit) -> BoxFuture<'static, Response> + Send + Sync;

/// What a handler is told when it really runs.
pub(crate) struct Visit {
    /// How many times any handler has run, this one included.
    pub(crate) run: u32,
    /// Which attempt this is, as idem says.
    pub(crate) attempt: u32,
    pub(crate) body: Bytes,
}

/// The state of the application.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) idem: Idempotency,
    pub(crate) ttl: Duration,
    runs: Arc<AtomicU32>,
    work: Arc<Work>,
    revoked: Arc<AtomicBool>,
    /// How many requests were dropped before they were answered.
    left: watch::Sender<u32>,
}

impl App {
    /// What every handler here does: it counts its run, and then does what the test wants.
    pub(crate) async fn work(&self, body: Bytes) -> Response {
        let run = self.runs.fetch_add(1, Ordering::SeqCst) + 1;
        let attempt = idem::current().map_or(0, |run| run.attempt());
        (self.work)(Visit { run, attempt, body }).await
    }
}

/// Who is asking: what stands before the dot of the token. What follows may change with every request.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) id: String,
}

/// What the application itself makes of a panic.
pub(crate) const OWN_PAGE: &str = "the application's own page";

impl App {
    /// Finds out who is asking, or what they are told instead.
    pub(crate) fn admit(&self, token: Option<&str>) -> Result<Caller, (StatusCode, &'static str)> {
        let id = token.and_then(|token| token.strip_prefix("Bearer ")?.split('.').next());
        match id {
            None => Err((StatusCode::UNAUTHORIZED, "who are you?")),
            Some(_) if self.revoked.load(Ordering::SeqCst) => Err((StatusCode::FORBIDDEN, "not any more")),
            Some(id) => Ok(Caller { id: id.to_owned() }),
        }
    }

    /// Answers a request, and counts it if it is dropped before; `None` if it panics.
    pub(crate) async fn answer<T>(&self, answering: impl Future<Output = T>) -> Option<T> {
        let mut guard = Left(Some(self.left.clone()));
        let answered = AssertUnwindSafe(answering).catch_unwind().await;
        guard.0 = None;
        answered.ok()
    }
}

struct Left(Option<watch::Sender<u32>>);

impl Drop for Left {
    fn drop(&mut self) {
        if let Some(left) = &self.0 {
            left.send_modify(|count| *count += 1);
        }
    }
}

/// Authentication, the application's own answer to a panic, and a look at who hangs up.
async fn front_door(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let token = request.headers().get("authorization").and_then(|value| value.to_str().ok());
    let caller = match app.admit(token) {
        Ok(caller) => caller,
        Err(refused) => return refused.into_response(),
    };
    request.extensions_mut().insert(caller);
    let answered = app.answer(next.run(request)).await;
    answered.unwrap_or_else(|| (StatusCode::INTERNAL_SERVER_ERROR, OWN_PAGE).into_response())
}

/// Serves an application of axum.
pub(crate) async fn serve(app: &App, router: Router<App>) -> SocketAddr {
    let router = router.layer(from_fn_with_state(app.clone(), front_door)).with_state(app.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    address
}

#[idempotent(key = header, ttl = app.ttl, scope = caller.id, operation = "charges.create", engine = app.idem)]
async fn charge(State(app): State<App>, Extension(caller): Extension<Caller>, body: Bytes) -> Response {
    app.work(body).await
}

/// An application in the making.
pub(crate) struct Setup {
    opened: Opened,
    configure: Box<dyn FnOnce(Builder) -> Builder>,
    ttl: Duration,
    work: Arc<Work>,
    routes: Routes,
    way: Way,
    runs: Arc<AtomicU32>,
}

impl Setup {
    /// `POST /charges` answers `201 charged in run N`.
    pub(crate) async fn on(kind: Kind) -> Self {
        Self::over(kind.open().await)
    }

    pub(crate) fn over(opened: Opened) -> Self {
        let setup = Self {
            opened,
            configure: Box::new(|builder| builder),
            ttl: Duration::from_hours(24),
            work: Arc::new(|_| unreachable!()),
            routes: vec![("/charges".to_owned(), post(charge))],
            way: Way::current(),
            runs: Arc::default(),
        };
        setup.work(|visit| async move {
            (StatusCode::CREATED, [("location", "/charges/1")], format!("charged in run {}", visit.run))
        })
    }

    /// Sets what handlers do.
    pub(crate) fn work<F, R>(mut self, work: impl Fn(Visit) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = R> + Send + 'static,
        R: IntoResponse,
    {
        self.work = Arc::new(move |visit| {
            let working = work(visit);
            async move { working.await.into_response() }.boxed()
        });
        self
    }

    /// Configures the engine.
    pub(crate) fn configure(mut self, configure: impl FnOnce(Builder) -> Builder + 'static) -> Self {
        self.configure = Box::new(configure);
        self
    }

    /// Sets how long `/charges` keeps its answers.
    pub(crate) fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    pub(crate) fn route(mut self, path: &str, method_router: MethodRouter<App>) -> Self {
        self.routes.push((path.to_owned(), method_router));
        self
    }

    pub(crate) async fn start(self) -> Server {
        let store = Faulty::new(self.opened.store.clone());
        let idem = (self.configure)(Idempotency::builder(store.clone())).build().unwrap();
        let app = App {
            idem,
            ttl: self.ttl,
            runs: self.runs,
            work: self.work,
            revoked: Arc::default(),
            left: watch::Sender::new(0),
        };
        let serving = self.way.serve(&app, self.routes).await;
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .unwrap();
        Server {
            address: serving.address,
            serving: Arc::new(serving),
            client,
            store,
            app,
            opened: self.opened,
            way: self.way,
        }
    }
}

/// How a client goes away.
#[derive(Clone, Copy)]
pub(crate) enum Leave {
    Fin,
    Rst,
}

/// A running application, and the client that talks to it.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) client: reqwest::Client,
    pub(crate) store: TestStore,
    pub(crate) opened: Opened,
    app: App,
    way: Way,
    /// It ends with its last user.
    #[allow(dead_code)]
    serving: Arc<Serving>,
}

impl Server {
    pub(crate) fn idem(&self) -> &Idempotency {
        &self.app.idem
    }

    /// How many times any handler has run.
    pub(crate) fn runs(&self) -> u32 {
        self.app.runs.load(Ordering::SeqCst)
    }

    /// How many times the store was asked about a key.
    pub(crate) fn asked(&self) -> usize {
        [Step::Claim, Step::LookUp].map(|step| self.store.count(step)).iter().sum()
    }

    /// Takes everybody's access away.
    pub(crate) fn revoke(&self) {
        self.app.revoked.store(true, Ordering::SeqCst);
    }

    /// Hangs up, and waits until the server has noticed if it does; it was the nth to do so.
    ///
    /// Behind actix-web a client that only stops writing is not noticed before it is answered.
    pub(crate) async fn hang_up(&self, client: TcpStream, leave: Leave, nth: u32) {
        if let Leave::Rst = leave {
            client.set_zero_linger().unwrap();
        }
        drop(client);
        if matches!(leave, Leave::Rst) || !self.way.is_actix() {
            self.app.left.subscribe().wait_for(|left| *left >= nth).await.unwrap();
        }
    }

    /// Another release of this application, over the same store: it counts the same runs.
    pub(crate) fn beside(&self) -> Setup {
        let mut setup = Setup::over(self.opened.clone());
        setup.runs = self.app.runs.clone();
        setup
    }

    /// The record of a charge by the usual caller.
    pub(crate) fn id(&self, key: &str) -> RecordId {
        self.id_of("charges.create", key)
    }

    pub(crate) fn id_of(&self, operation: &'static str, key: &str) -> RecordId {
        self.idem().record_id(operation, &Scope::new("alice").unwrap(), &Key::new(key).unwrap())
    }

    pub(crate) async fn inspect(&self, id: &RecordId) -> Option<Inspection> {
        self.idem().inspect(id).await.unwrap()
    }

    /// Waits until nothing goes on in the background.
    pub(crate) async fn settled(&self) {
        assert_eq!(self.idem().drain(Duration::from_secs(20)).await, 0, "something still goes on");
    }
}
