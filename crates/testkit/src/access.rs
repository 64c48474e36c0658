//! How to reach one API server as somebody: clients and kubeconfigs. It knows nothing of who runs the server, and a
//! fault proxy can be put in between with [`Access::via`].

use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::Client;
use kube::config::AuthInfo;
use serde_json::{Value, json};

use crate::plane::certs::Pair;

/// An API server can't be reached as asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is no URL.
    #[error("{server} is no URL")]
    Server {
        /// The address.
        server: String,
        /// Why not.
        #[source]
        source: http::uri::InvalidUri,
    },
    /// The client rejects the credentials.
    #[error("no client can be made of these credentials")]
    Credentials(#[source] serde_json::Error),
    /// The client can't be built.
    #[error("no client for {server}")]
    Client {
        /// The address.
        server: String,
        /// Why not.
        #[source]
        source: Box<kube::Error>,
    },
    /// The User-Agent can't be sent.
    #[error("no such User-Agent can be sent")]
    Agent(#[source] http::header::InvalidHeaderValue),
    /// The kubeconfig can't be written.
    #[error("can't write the kubeconfig {path}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

/// Who one is.
#[derive(Debug, Clone)]
pub enum Credential {
    /// By client certificate.
    Certificate(Pair),
    /// By bearer token.
    Token(String),
    /// Nobody.
    Anonymous,
}

/// One API server, seen by one user.
#[derive(Debug, Clone)]
pub struct Access {
    server: String,
    ca_pem: String,
    ca_der: Vec<u8>,
    credential: Credential,
    namespace: String,
    name: String,
    agent: Option<String>,
}

impl Access {
    /// `name` is that of the cluster and context in kubeconfigs.
    pub fn new(name: &str, server: &str, ca: (&str, &[u8]), credential: Credential) -> Self {
        Self {
            server: server.to_owned(),
            ca_pem: ca.0.to_owned(),
            ca_der: ca.1.to_vec(),
            credential,
            namespace: "default".to_owned(),
            name: name.to_owned(),
            agent: None,
        }
    }

    /// The same user by another address, such as that of a fault proxy. The serving certificate is good for any port
    /// of the loopback address.
    #[must_use]
    pub fn via(&self, server: &str) -> Self {
        Self {
            server: server.to_owned(),
            ..self.clone()
        }
    }

    /// Another user of the same server.
    #[must_use]
    pub fn with(&self, credential: Credential) -> Self {
        Self {
            credential,
            ..self.clone()
        }
    }

    /// The same with another default namespace.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            ..self.clone()
        }
    }

    /// The same by another User-Agent; kubeconfigs don't have it.
    #[must_use]
    pub fn with_agent(&self, agent: &str) -> Self {
        Self {
            agent: Some(agent.to_owned()),
            ..self.clone()
        }
    }

    /// Whether one shows a client certificate.
    pub fn is_by_certificate(&self) -> bool {
        matches!(self.credential, Credential::Certificate(_))
    }

    /// `https://…`
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The server's CA, PEM.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// The server's CA, base64 of PEM, as kubeconfigs and webhook configurations want it.
    pub fn ca_bundle(&self) -> String {
        STANDARD.encode(&self.ca_pem)
    }

    /// A client with connections of its own. It belongs to the runtime that it is made in.
    pub fn client(&self) -> Result<Client, Error> {
        let client_error = |source| Error::Client {
            server: self.server.clone(),
            source: Box::new(source),
        };
        Client::try_from(self.config()?).map_err(client_error)
    }

    /// The client's configuration, for those who need to change it.
    pub fn config(&self) -> Result<kube::Config, Error> {
        let server = self.server.parse().map_err(|source| Error::Server {
            server: self.server.clone(),
            source,
        })?;
        let mut config = kube::Config::new(server);
        config.root_cert = Some(vec![self.ca_der.clone()]);
        config.default_namespace.clone_from(&self.namespace);
        config.auth_info =
            serde_json::from_value::<AuthInfo>(self.user()).map_err(Error::Credentials)?;
        let agent = self.agent.as_deref().map(http::HeaderValue::from_str);
        if let Some(agent) = agent.transpose().map_err(Error::Agent)? {
            config.headers.push((http::header::USER_AGENT, agent));
        }
        Ok(config)
    }

    /// A kubeconfig with everything inline.
    pub fn kubeconfig(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{
                "name": self.name,
                "cluster": {
                    "server": self.server,
                    "certificate-authority-data": self.ca_bundle(),
                },
            }],
            "users": [{ "name": "user", "user": self.user() }],
            "contexts": [{
                "name": self.name,
                "context": { "cluster": self.name, "user": "user", "namespace": self.namespace },
            }],
            "current-context": self.name,
        })
    }

    /// [`Self::kubeconfig`] as text. (JSON is YAML; every reader of kubeconfigs takes it.)
    pub fn kubeconfig_yaml(&self) -> String {
        serde_saphyr::to_string(&self.kubeconfig())
            .unwrap_or_else(|_| self.kubeconfig().to_string())
    }

    /// Writes the kubeconfig, readable by its owner only.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        write_private(path, &self.kubeconfig_yaml()).map_err(|source| Error::Write {
            path: path.to_owned(),
            source,
        })
    }

    fn user(&self) -> Value {
        match &self.credential {
            Credential::Certificate(pair) => json!({
                "client-certificate-data": STANDARD.encode(&pair.certificate),
                "client-key-data": STANDARD.encode(&pair.key),
            }),
            Credential::Token(token) => json!({ "token": token }),
            Credential::Anonymous => json!({}),
        }
    }
}

/// Writes a file that only its owner may read.
pub(crate) fn write_private(path: &Path, text: &str) -> io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())
}
