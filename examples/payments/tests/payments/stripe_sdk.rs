//! Stripe's own SDK for Python, pointed at the service.

use std::time::Instant;

use idem_testkit::{Fault, UnreliableWay};
use serde_json::Value;

use crate::bad_way::{assert_each_has_one_row, charges};
use crate::home::Home;
use crate::python;
use crate::service::Service;

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_the_sdk_over_a_bad_way_charge_once_each_and_its_errors_are_what_they_should_be() {
    let Some(python) = python::with("stripe").await else { return };
    let home = Home::sqlite().await;
    let service = Service::start(&home, &[]).await;
    let (faults, cutting) = (Fault::seeded(4), UnreliableWay::to(&service.address, Fault::seeded(5)).await);
    let lossy = UnreliableWay::to(&service.address, move |number| match faults(number) {
        Fault::CutAnswer => Fault::LoseAnswer,
        fault => fault,
    })
    .await;
    let (calls, begun) = (charges(500), Instant::now());
    let arguments = [lossy.address(), cutting.address(), &service.address, &calls.to_string()];
    let printed = python::run(&python, include_str!("stripe_sdk.py"), &arguments).await;
    let keys: Vec<_> = (0..calls).map(|number| format!("order-{number}")).collect();
    let alice = service.caller("alice");
    assert_each_has_one_row(&alice, &[&lossy, &cutting], &keys).await;
    let requests = lossy.requests() + cutting.requests();
    println!("{calls} calls of the SDK by {requests} requests in {:?}", begun.elapsed());

    let errors: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(errors["reused"], "IdempotencyError");
    assert_eq!(errors["declined"], "CardError card_declined");
    assert_eq!(errors["unreadable"], "InvalidRequestError");
    assert_eq!(errors["unknown"], "AuthenticationError");
    // The one that the reused key belongs to.
    assert_eq!(service.caller("bob").rows("/charges").await.len(), 1);
}
