//! `benthic image attach`: an image as a block device of this machine.
//!
//! The kernel has no client for images. So the program serves the image over NBD, on a socket in a
//! private directory, and connects the kernel to it: with its own NBD client ([`kernel_nbd`]), or
//! with a FUSE file below a loop device ([`fuse_loop`]). A kernel loses writes if the server ends
//! before the device does, so the server goes on until the device is detached, and no signal
//! detaches a device that is in use.

mod device;
mod fuse_loop;
mod kernel_nbd;
mod private_dir;

use super::serve::{open_image, uri};
use benthic_block::nbd::{self, Address, Export, Exports, Listener, Options};
use benthic_block::{Image, ImageAddress};
use benthic_core::{Error, Result};
use benthic_program::exit::Outcome;
use benthic_program::interrupt::Deferral;
use benthic_program::session::Session;
use clap::Args;
use device::{Device, Way};
use private_dir::PrivateDir;
use serde_json::json;
use std::sync::Arc;
use tokio::sync::oneshot;

#[derive(Args)]
#[command(
    after_help = "Prints the device, such as /dev/loop0, which is like a disk: make a file system on it and mount it. Ctrl-C \
    detaches the device. If it is in use, Ctrl-C prints an error and the program goes on: unmount the device first.\n\n\
    Needs root, and either the kernel's module nbd with the program nbd-client, or FUSE and loop devices with the \
    program nbdfuse.\n\n\
    Examples:\n  benthic image attach vms/root\n  benthic image attach vms/template@v1 --json"
)]
pub struct AttachArgs {
    /// POOL/IMAGE, or POOL/IMAGE@SNAPSHOT, which is read-only
    image: ImageAddress,
    /// Refuse changes, and leave the image to other writers
    #[arg(long)]
    read_only: bool,
    /// Take the image from the program that has it open; its later writes fail
    #[arg(long, conflicts_with = "read_only")]
    take_over: bool,
}

pub async fn run(args: AttachArgs, session: &Session) -> Outcome {
    let way = Way::find()?;
    let directory = PrivateDir::create(&session.out).await?;
    let image = open_image(&args.image, args.read_only, args.take_over, session).await?;
    let served = serve(&args.image.to_string(), &image, way, &directory, session).await;
    let closed = image.close().await;
    served.and(closed.map_err(Into::into))
}

/// Serves the image for as long as it is a device.
async fn serve(
    name: &str,
    image: &Arc<dyn Image>,
    way: Way,
    directory: &PrivateDir,
    session: &Session,
) -> Outcome {
    let listener = Listener::bind(Address::Unix(directory.path().join("nbd.sock"))).await?;
    let uri = uri(listener.address(), name, false);
    let exports = Exports::new(vec![Export::new(name.to_owned(), name.to_owned(), Arc::clone(image))]);
    let (stop, stopped) = oneshot::channel::<()>();
    let server = tokio::spawn(nbd::serve(listener, exports, Options::default(), async {
        // The sender is dropped, which is the signal.
        let _ = stopped.await;
    }));
    let attached = match Device::attach(way, name, &uri, image.info().read_only, directory).await {
        Ok(device) => keep(device, name, session).await,
        Err(error) => Err(error.into()),
    };
    drop(stop);
    let served: Result<()> = server
        .await
        .unwrap_or_else(|panic| Err(Error::internal("the NBD server panicked").with_source(panic)));
    attached.and(served.map_err(Into::into))
}

/// Prints the device, and detaches it after a signal.
async fn keep(mut device: Device, name: &str, session: &Session) -> Outcome {
    let path = device.path().display().to_string();
    let printed =
        session.out.result(&path, || json!({ "image": name, "device": path, "pid": std::process::id() }));
    if let Err(failure) = printed.and_then(|()| session.out.flush()) {
        device.detach().await?;
        return Err(failure);
    }
    let mut signals = Deferral::start()?;
    loop {
        let status = tokio::select! {
            status = signals.signal() => status,
            ended = device.wait_for_end() => return Ok(ended?),
        };
        match device.detach().await {
            Ok(()) => {
                signals.end(status);
                return Ok(());
            }
            Err(error) => session.out.error(&error, None),
        }
    }
}
