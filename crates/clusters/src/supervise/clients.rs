//! From credentials to the clients of a target, and who gets them. When that is done is the supervisor's affair.

use kube::Client;

use super::Supervisor;
use super::credentials::{Credentials, Source};
use crate::connection::{Connection, LostReason};
use crate::door;
use crate::door::streams::{LocalStreams, Streams};
use crate::kubeconfig::{self, KubeconfigFault};
use crate::secrets::content;
use crate::session::Session;

impl Supervisor {
    /// Makes the first client from new credentials and gives it to everybody, before it is tried: a changed token must
    /// not cost a connected target anything.
    pub(super) fn open(&mut self, credentials: &Credentials) -> Result<Source, LostReason> {
        let (source, place) = match credentials {
            Credentials::Local => (Source::Local, (String::new(), None)),
            Credentials::Secret { secret, held } => {
                let bytes = content::kubeconfig(held, &secret.key).unwrap_or_default();
                let unreadable = |fault| LostReason::KubeconfigUnreadable {
                    secret: secret.clone(),
                    fault: Box::new(fault),
                };
                let config =
                    kubeconfig::parse(bytes, secret.context.as_deref()).map_err(unreadable)?;
                let refused = |refusal| LostReason::Refused {
                    secret: Some(secret.clone()),
                    refusal,
                };
                self.options.allowed.check(&config).map_err(refused)?;
                let place = (config.cluster_url.to_string(), config.root_cert.clone());
                (Source::Remote(Box::new(config)), place)
            }
        };
        // Whatever is wrong with them shows now.
        self.make(&source).map_err(|fault| match credentials {
            Credentials::Secret { secret, .. } => LostReason::KubeconfigUnreadable {
                secret: secret.clone(),
                fault: Box::new(fault),
            },
            Credentials::Local => LostReason::Unreachable(fault.to_string()),
        })?;
        if self
            .place
            .replace(place.clone())
            .is_some_and(|old| old != place)
        {
            self.realm = self.target.next_number();
            // Another cluster, maybe: what it says counts for nothing until it has said who it is.
            if self.target.is_connected() {
                self.target.set_connection(Connection::Connecting);
            }
            self.target.set_session(None);
        }
        self.unproved = true;
        self.prober.reset();
        Ok(source)
    }

    pub(super) fn make(&self, source: &Source) -> Result<Client, KubeconfigFault> {
        match source {
            Source::Local => Ok(self.own.clone()),
            Source::Remote(config) => {
                let (config, options) = ((**config).clone(), &self.options);
                let budget = self.target.budget();
                door::client(config, options.component, &options.allowed, budget)
                    .map_err(|error| KubeconfigFault::Client(error.to_string()))
            }
        }
    }

    /// The way for streams beside a client of the same source.
    pub(super) fn streams(&self, source: &Source) -> Option<Streams> {
        let (options, budget) = (&self.options, self.target.budget());
        match source {
            Source::Local => {
                let own = options.local_streams.as_ref();
                let client = own
                    .map_or(&self.local, |LocalStreams(client)| client)
                    .clone();
                Some(Streams::local(client, budget))
            }
            Source::Remote(config) => {
                let config = (**config).clone();
                let made = Streams::remote(config, options.component, &options.allowed, budget);
                made.inspect_err(|error| {
                    tracing::warn!(target_key = %self.target.key(), %error, "no streams from this target");
                })
                .ok()
            }
        }
    }

    pub(super) fn publish(&mut self, source: &Source, client: Client, streams: Option<Streams>) {
        self.unthrottled = Some(client.clone());
        let client = match source {
            Source::Local => self.local.clone(),
            Source::Remote(_) => client,
        };
        let client = match &self.throttle {
            Some(throttle) => throttle.client(client),
            None => client,
        };
        self.target.set_session(Some(Session {
            generation: self.target.next_number(),
            client,
            streams,
            realm: self.realm,
        }));
    }
}
