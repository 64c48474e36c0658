//! The certificate that the kubelet server shows: where it comes from, and when the next one is due. Its key never
//! leaves this process's memory, so each process has one of its own.

mod make;
mod plan;
mod request;

use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use pilotage_model::virtual_node::KubeletAddress;
use pilotage_runtime::backoff::{Backoff, dice};
use pilotage_runtime::tls::{Certificates, TlsError};
use thiserror::Error;

use self::make::MakeError;
use self::plan::Life;
use self::request::RequestError;

/// Pause after a failure.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_mins(10)).spread(0.3);

/// Where certificates come from.
pub(super) struct Issuer {
    address: KubeletAddress,
    /// Who signs; `None`: nobody else.
    signer: Option<String>,
}

/// Why there is no new certificate.
#[derive(Debug, Error)]
enum Failed {
    #[error(transparent)]
    Make(#[from] MakeError),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("the signer's certificate can't be used: {0}")]
    Use(#[from] TlsError),
    #[error("the signer's certificate can't be read, or has ended")]
    Life,
}

impl Issuer {
    pub(super) fn new(address: KubeletAddress, signer: Option<String>) -> Self {
        Self { address, signer }
    }

    /// Keeps a certificate in `certificates` for ever. What is shown stays until there is another one.
    pub(super) async fn keep(&self, client: Client, certificates: Certificates) {
        let mut failures = 0_u32;
        loop {
            let pause = match self.renew(&client, &certificates).await {
                Ok(life) => {
                    failures = 0;
                    tracing::info!(until = %life.end, "the kubelet of virtual nodes has a certificate");
                    life.until_renewal(Timestamp::now(), dice())
                }
                Err(error) => {
                    failures = failures.saturating_add(1);
                    let shown = certificates.is_loaded();
                    tracing::warn!(
                        %error, failures, shown,
                        "no new certificate for the kubelet of virtual nodes: without one no logs and shells of \
                         their pods"
                    );
                    BACKOFF.delay(failures, dice())
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    async fn renew(&self, client: &Client, certificates: &Certificates) -> Result<Life, Failed> {
        let (chain, key) = match &self.signer {
            None => make::self_signed(&self.address, Timestamp::now())?,
            Some(signer) => {
                let made = make::request(&self.address)?;
                let chain = request::signed(client, signer, &made.request).await?;
                (chain, made.key)
            }
        };
        let life = Life::of(&chain, Timestamp::now()).ok_or(Failed::Life)?;
        certificates.replace(chain.as_bytes(), key.as_bytes())?;
        Ok(life)
    }
}
