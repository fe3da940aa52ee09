//! The ways in: how the handlers of the application come to run once for each key.
//!
//! A way in is a variant here, a file beside its siblings, and a line in `main.rs`. Cases do not know of it: they speak
//! HTTP to an application that says the same of its operations, by whatever way.

mod attribute;
mod layer;

use axum::Router;
use axum::routing::MethodRouter;

use crate::server::App;

/// A way in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// `#[idempotent]` on the handlers of axum.
    Attribute,
    /// `IdempotencyLayer` around a router whose handlers know nothing of it.
    Layer,
}

/// The routes of an application, with annotated handlers.
pub(crate) type Routes = Vec<(String, MethodRouter<App>)>;

tokio::task_local! {
    static WAY: Way;
}

impl Way {
    pub(crate) const ALL: [Self; 2] = [Self::Attribute, Self::Layer];

    /// Runs a case by this way, if it applies.
    pub(crate) async fn run(self, case: &str, running: impl Future<Output = ()>) {
        match self.why_not(case) {
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
        let reasons = match self {
            Self::Attribute => attribute::NOT_HERE,
            Self::Layer => layer::NOT_HERE,
        };
        reasons.iter().find_map(|(name, reason)| (*name == case).then_some(*reason))
    }

    /// Makes the application.
    pub(crate) fn router(self, app: &App, routes: Routes) -> Router<App> {
        match self {
            Self::Attribute => attribute::router(routes),
            Self::Layer => layer::router(app, routes),
        }
    }
}

/// Shows which case runs by which way on which store, and why not where it does not.
pub(crate) fn print_matrix(cases: &[(&str, &str)], by: &[(Way, &[&str])]) {
    for (way, stores) in by {
        println!("{way:?}: {}", stores.join(", "));
    }
    for (row, case) in cases {
        println!("{row} {case}");
        for (way, reason) in Way::ALL.iter().filter_map(|way| Some((way, way.why_not(case)?))) {
            println!("    not by {way:?}: {reason}");
        }
    }
}

/// A reason for a case that there is not tells of a case that was renamed.
pub(crate) fn assert_reasons_are_of(cases: &[(&str, &str)]) {
    for (name, _) in attribute::NOT_HERE.iter().chain(layer::NOT_HERE) {
        assert!(cases.iter().any(|(_, case)| case == name), "there is no case {name}");
    }
}
