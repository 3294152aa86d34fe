//! The services over gRPC.
//!
//! One service of tower answers all three services of CSI: the path of a request names its method.
//! A generator would need `protoc` or a build script for a table that is as long as its input.

use crate::driver::Driver;
use crate::errors::{Failure, Outcome};
use benthic_core::{Error, Result};
use futures::future::BoxFuture;
use futures::stream::unfold;
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::net::UnixListener;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http;
use tonic::server::{Grpc, UnaryService};
use tonic::transport::Server;
use tonic::{Code, Response, Status};
use tonic_prost::ProstCodec;

/// Calls of one connection that run at once.
const CALLS_MAX: u32 = 64;

/// Serves the driver until `shutdown` ends, and then completes the calls that run.
///
/// # Errors
/// `Internal` if the server fails.
pub async fn serve(
    listener: UnixListener,
    driver: Arc<Driver>,
    shutdown: impl Future<Output = ()>,
) -> Result<()> {
    let accept =
        async |listener: UnixListener| Some((listener.accept().await.map(|(stream, _)| stream), listener));
    Server::builder()
        .max_concurrent_streams(CALLS_MAX)
        .serve_with_incoming_shutdown(Services(driver), unfold(listener, accept), shutdown)
        .await
        .map_err(|error| Error::internal("the gRPC server failed").with_source(error))
}

/// All services of the driver.
#[derive(Clone)]
struct Services(Arc<Driver>);

impl Service<http::Request<Body>> for Services {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<http::Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let driver = Arc::clone(&self.0);
        Box::pin(async move { Ok(answer(driver, request).await) })
    }
}

/// Finds the method for the path of a request, and runs it.
macro_rules! methods {
    ($driver:ident, $request:ident, $($path:literal => $method:ident,)*) => {
        match $request.uri().path() {
            $($path => {
                let method = Method(Box::new(move |request| {
                    let call = $driver.call();
                    run($path, async move {
                        let outcome = call.$method(request).await;
                        call.end().await;
                        outcome
                    })
                }));
                Grpc::new(ProstCodec::default()).unary(method, $request).await
            })*
            path => Status::unimplemented(format!("the driver has no such method path={path}")).into_http(),
        }
    };
}

async fn answer(driver: Arc<Driver>, request: http::Request<Body>) -> http::Response<Body> {
    methods!(driver, request,
        "/csi.v1.Identity/GetPluginInfo" => get_plugin_info,
        "/csi.v1.Identity/GetPluginCapabilities" => get_plugin_capabilities,
        "/csi.v1.Identity/Probe" => probe,
        "/csi.v1.Controller/CreateVolume" => create_volume,
        "/csi.v1.Controller/DeleteVolume" => delete_volume,
        "/csi.v1.Controller/ValidateVolumeCapabilities" => validate_volume_capabilities,
        "/csi.v1.Controller/ListVolumes" => list_volumes,
        "/csi.v1.Controller/GetCapacity" => get_capacity,
        "/csi.v1.Controller/ControllerGetCapabilities" => controller_get_capabilities,
        "/csi.v1.Controller/CreateSnapshot" => create_snapshot,
        "/csi.v1.Controller/DeleteSnapshot" => delete_snapshot,
        "/csi.v1.Controller/ListSnapshots" => list_snapshots,
        "/csi.v1.Controller/ControllerExpandVolume" => controller_expand_volume,
        "/csi.v1.Node/NodeStageVolume" => node_stage_volume,
        "/csi.v1.Node/NodeUnstageVolume" => node_unstage_volume,
        "/csi.v1.Node/NodePublishVolume" => node_publish_volume,
        "/csi.v1.Node/NodeUnpublishVolume" => node_unpublish_volume,
        "/csi.v1.Node/NodeGetVolumeStats" => node_get_volume_stats,
        "/csi.v1.Node/NodeGetCapabilities" => node_get_capabilities,
        "/csi.v1.Node/NodeGetInfo" => node_get_info,
    )
}

type Answer<A> = BoxFuture<'static, Result<Response<A>, Status>>;

/// Runs a call to its end, also if the client no longer waits for it: a mount must not stay half
/// done.
fn run<A: Send + 'static>(
    path: &'static str,
    call: impl Future<Output = Outcome<A>> + Send + 'static,
) -> Answer<A> {
    let call = tokio::spawn(call);
    Box::pin(async move {
        let outcome = call.await.unwrap_or_else(|panic| Err(Failure::new(Code::Internal, panic.to_string())));
        match outcome {
            Ok(answer) => Ok(Response::new(answer)),
            Err(failure) => {
                tracing::info!(path, code = ?failure.code, message = failure.message, "a call failed");
                Err(failure.into())
            }
        }
    })
}

/// A method as a function.
struct Method<Q, A>(Box<dyn FnMut(Q) -> Answer<A> + Send>);

impl<Q, A> UnaryService<Q> for Method<Q, A> {
    type Response = A;
    type Future = Answer<A>;

    fn call(&mut self, request: tonic::Request<Q>) -> Answer<A> {
        (self.0)(request.into_inner())
    }
}
