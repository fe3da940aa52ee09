//! The ways in: how the handlers of the application come to run once for each key.
//!
//! A way in is a variant here, a file beside its siblings, and a line in `main.rs`. Cases do not know of it: they speak
//! HTTP to an application that says the same of its operations, by whatever way.

mod actix;
mod actix_attribute;
mod actix_middleware;
mod attribute;
mod layer;
mod rules;

use std::net::SocketAddr;

use axum::routing::MethodRouter;

use crate::server::{self, App};
use crate::stores::Kind;

/// A way in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// `#[idempotent]` on the handlers of axum.
    Attribute,
    /// `IdempotencyLayer` around a router whose handlers know nothing of it.
    Layer,
    /// `#[idempotent]` on the handlers of actix-web.
    ActixAttribute,
    /// `IdempotencyMiddleware` around handlers of actix-web that know nothing of it.
    ActixMiddleware,
}

/// An application that is served.
pub(crate) struct Serving {
    pub(crate) address: SocketAddr,
    /// What ends with it.
    #[allow(dead_code)]
    running: Option<actix::Running>,
}

/// The routes of an application, with annotated handlers.
pub(crate) type Routes = Vec<(String, MethodRouter<App>)>;

/// A case: its section, its row and its name.
pub(crate) type Case = (&'static str, &'static str, &'static str);

/// The sections that the ways of actix-web show on every store, so that the gate stays short.
const SHOWN_EVERYWHERE: &[&str] = &["identity", "stored"];

const SAME_CODE: &str = "the same code as on memory and postgres, where it is shown; what is this store's own, by the \
                         other ways";

tokio::task_local! {
    static WAY: Way;
}

impl Way {
    pub(crate) const ALL: [Self; 4] =
        [Self::Attribute, Self::Layer, Self::ActixAttribute, Self::ActixMiddleware];

    /// Runs a case by this way, if it applies.
    pub(crate) async fn run(self, store: Kind, section: &str, case: &str, running: impl Future<Output = ()>) {
        match self.why_not(case).or_else(|| self.why_not_on(store, section)) {
            Some(reason) => println!("{case} does not apply: {reason}"),
            None => WAY.scope(self, running).await,
        }
    }

    /// The way by which the calling case runs.
    pub(crate) fn current() -> Self {
        WAY.try_with(|way| *way).unwrap_or(Self::Attribute)
    }

    /// Why a case does not apply to this way.
    pub(crate) fn why_not(self, case: &str) -> Option<&'static str> {
        self.not_here().iter().find_map(|(name, reason)| (*name == case).then_some(*reason))
    }

    /// Why a section is not shown by this way on a store.
    fn why_not_on(self, store: Kind, section: &str) -> Option<&'static str> {
        let is_elsewhere = self.is_actix()
            && !matches!(store, Kind::Memory | Kind::Postgres)
            && !SHOWN_EVERYWHERE.contains(&section);
        is_elsewhere.then_some(SAME_CODE)
    }

    /// The cases that do not apply to this way, and why.
    fn not_here(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Attribute => attribute::NOT_HERE,
            Self::Layer => layer::NOT_HERE,
            Self::ActixAttribute => actix_attribute::NOT_HERE,
            Self::ActixMiddleware => actix_middleware::NOT_HERE,
        }
    }

    /// Whether what an extractor rejects has been claimed before.
    pub(crate) fn claims_before_extractors(self) -> bool {
        matches!(self, Self::Layer | Self::ActixMiddleware)
    }

    pub(crate) fn is_actix(self) -> bool {
        matches!(self, Self::ActixAttribute | Self::ActixMiddleware)
    }

    /// The operation of `/unpinned`, which is named by where its handler stands.
    pub(crate) fn unpinned(self) -> &'static str {
        if self.is_actix() {
            "behaviour::ways::actix_attribute::unpinned"
        } else {
            "behaviour::identity::unpinned"
        }
    }

    /// Serves the application. Ways of actix-web have handlers of their own for all routes.
    pub(crate) async fn serve(self, app: &App, routes: Routes) -> Serving {
        match self {
            Self::Attribute => Serving::of_axum(server::serve(app, attribute::router(routes)).await),
            Self::Layer => Serving::of_axum(server::serve(app, layer::router(app, routes)).await),
            Self::ActixAttribute => actix::serve(app, actix_attribute::routes),
            Self::ActixMiddleware => actix::serve(app, actix_middleware::routes(app)),
        }
    }
}

impl Serving {
    fn of_axum(address: SocketAddr) -> Self {
        Self { address, running: None }
    }
}

/// Shows which case runs by which way on which store, and why not where it does not.
pub(crate) fn print_matrix(cases: &[Case], by: &[(Way, &[&str])]) {
    for (way, stores) in by {
        println!("{way:?}: {}", stores.join(", "));
    }
    for (section, row, case) in cases {
        println!("{row} {case}");
        for way in Way::ALL {
            if let Some(reason) = way.why_not(case) {
                println!("    not by {way:?}: {reason}");
            } else if let Some(reason) = way.why_not_on(Kind::Sqlite, section) {
                println!("    not by {way:?} on sqlite, mysql and redis: {reason}");
            }
        }
    }
}

/// A reason for a case that there is not tells of a case that was renamed.
pub(crate) fn assert_reasons_are_of(cases: &[Case]) {
    for (name, _) in Way::ALL.into_iter().flat_map(Way::not_here) {
        assert!(cases.iter().any(|(_, _, case)| case == name), "there is no case {name}");
    }
    for shown in SHOWN_EVERYWHERE {
        assert!(cases.iter().any(|(section, _, _)| section == shown), "there is no section {shown}");
    }
}
