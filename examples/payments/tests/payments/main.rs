//! The service from outside: the built binary as a child process, over real HTTP on loopback.

mod bad_way;
mod conserved;
mod crash;
mod disconnect;
mod home;
mod http;
mod nginx;
mod once;
mod python;
mod race;
mod redis_places;
mod service;
mod shutdown;
mod stripe_sdk;
mod transfers;
mod transfers_crash;
mod trigger;
mod validation;
mod zombie;
