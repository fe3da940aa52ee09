//! A server of tonic behind a layer, and its clients.

use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use idem::tower::{IdempotencyLayer, Mark, Said};
use idem::{Idempotency, MemoryStore};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::Stream;
use tokio_stream::wrappers::{TcpListenerStream, UnboundedReceiverStream};
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

/// A service that counts its runs, and says what it is asked for.
#[derive(Clone)]
pub(crate) struct Counted {
    runs: Arc<AtomicU32>,
    /// What is streamed, by [`Counted::streaming`].
    messages: Arc<Mutex<Option<mpsc::UnboundedReceiver<Message>>>>,
    /// Told when a run has begun.
    begun: Arc<Semaphore>,
    /// A permit lets a run that is asked to "wait" go on.
    pub(crate) go: Arc<Semaphore>,
}

pub(crate) type Message = Result<HealthCheckResponse, Status>;

pub(crate) fn message(number: u32) -> HealthCheckResponse {
    HealthCheckResponse { status: i32::try_from(number).unwrap() }
}

impl Counted {
    pub(crate) fn new() -> Self {
        Self {
            runs: Arc::default(),
            messages: Arc::default(),
            begun: Arc::new(Semaphore::new(0)),
            go: Arc::new(Semaphore::new(0)),
        }
    }

    /// What is sent here is what the next stream sends.
    pub(crate) fn streaming(&self) -> mpsc::UnboundedSender<Message> {
        let (sender, receiver) = mpsc::unbounded_channel();
        *self.messages.lock().unwrap() = Some(receiver);
        sender
    }

    pub(crate) fn runs(&self) -> u32 {
        self.runs.load(Ordering::SeqCst)
    }

    /// Waits until a run has begun.
    pub(crate) async fn has_begun(&self) {
        self.begun.acquire().await.unwrap().forget();
    }

    fn run(&self) -> u32 {
        self.begun.add_permits(1);
        self.runs.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Serves behind this layer; returns somebody who calls.
    pub(crate) async fn behind(&self, layer: IdempotencyLayer<Said, Said>) -> HealthClient<Channel> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server::builder().layer(layer).add_service(HealthServer::new(self.clone()));
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        let channel = Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
        HealthClient::new(channel)
    }
}

/// A layer whose operations are the methods of services.
pub(crate) fn layer() -> IdempotencyLayer<Said, Said> {
    let idem = Idempotency::new(MemoryStore::new());
    IdempotencyLayer::new(&idem).operations(|request| Some(request.uri.path().to_owned())).shared()
}

#[tonic::async_trait]
impl Health for Counted {
    /// Answers the number of its run, or fails as it is asked to.
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let run = self.run();
        match &*request.into_inner().service {
            "fail" => return Err(Status::failed_precondition(format!("failed in run {run}"))),
            "come again" if run == 1 => return Err(Status::unavailable("not now")),
            "wait" => self.go.acquire().await.unwrap().forget(),
            _ => {}
        }
        let mut response = Response::new(message(run));
        response.metadata_mut().insert("x-run", run.into());
        response
            .metadata_mut()
            .insert_bin("x-bytes-bin", tonic::metadata::MetadataValue::from_bytes(&[0, 255]));
        Ok(response)
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Message> + Send>>;

    /// Streams what it is given; where it is asked for "news", it says that they are not to be kept.
    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        self.run();
        let messages = self.messages.lock().unwrap().take().expect("it streams once");
        let mut response =
            Response::new(Box::pin(UnboundedReceiverStream::new(messages)) as Self::WatchStream);
        if request.get_ref().service == "news" {
            response.extensions_mut().insert(Mark::Tombstone);
        }
        Ok(response)
    }
}
