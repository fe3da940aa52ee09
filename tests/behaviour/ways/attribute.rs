//! By the attribute: the handlers are annotated where they stand, so their routes are all there is.

use axum::Router;

use super::Routes;
use crate::server::App;

pub(super) const NOT_HERE: &[(&str, &str)] = &[];

pub(super) fn router(routes: Routes) -> Router<App> {
    routes.into_iter().fold(Router::new(), |router, (path, handler)| router.route(&path, handler))
}
