//! What a layer costs over the bare router: called in process, 1 kB and 64 kB of JSON in and out.

use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use idem::tower::IdempotencyLayer;
use idem::{Idempotency, MemoryStore};
use tokio::runtime::Builder;

use crate::http::send;
use crate::payload::Charge;
use crate::rounds::{Candidate, table};

/// Charges in a body, requests a round.
const SIZES: [(usize, usize); 2] = [(1, 3_000), (70, 200)];

async fn charge(Json(charges): Json<Vec<Charge>>) -> (StatusCode, Json<Vec<Charge>>) {
    (StatusCode::CREATED, Json(charges))
}

fn bare() -> Router {
    Router::new().route("/charges", post(charge))
}

fn layered() -> Router {
    let idem = Idempotency::new(MemoryStore::builder().max_records(10_000_000).build());
    bare().layer(IdempotencyLayer::new(&idem).routes("benches").shared())
}

pub(crate) fn measure() {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    for (charges, requests) in SIZES {
        let json = serde_json::to_string(&vec![Charge::of_a_kilobyte(); charges]).expect("JSON");
        let equal = vec![json.clone().into_bytes(); requests];
        let different: Vec<_> =
            (0..requests).map(|i| json.replace("500000", &format!("{}", 100_000 + i)).into_bytes()).collect();
        let filled = layered();
        send(&runtime, &filled, "/charges", &different, false);
        let send = |router: &Router, bodies: &[Vec<u8>], replayed| {
            send(&runtime, router, "/charges", bodies, replayed);
        };
        // What it keeps is not given back within a round.
        let fresh = |router: Router, bodies: &[Vec<u8>]| {
            send(&router, bodies, false);
            std::mem::forget(router);
        };
        let operations = requests as u32;
        table(
            &format!("axum router, {} bytes of JSON in and out", json.len()),
            vec![
                Candidate::new("bare router", operations, bare, |router| fresh(router, &different)),
                Candidate::new("under the layer, fresh, every body new", operations, layered, |router| {
                    fresh(router, &different);
                }),
                Candidate::new(
                    "under the layer, fresh, equal bodies (memo)",
                    operations,
                    layered,
                    |router| {
                        fresh(router, &equal);
                    },
                ),
                Candidate::new(
                    "under the layer, replay",
                    operations,
                    || (),
                    |()| send(&filled, &different, true),
                ),
            ],
        );
    }
}
