//! Making keys and certificates: what a [`Step`] does to the material. The time is an argument; randomness is the
//! operating system's, since keys must be.

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use thiserror::Error;
use time::OffsetDateTime;

use super::plan::{self, Renewal, Step, Timings};
use super::{Authority, Material, Next, Retired, Serving};

/// Certificates begin that much earlier, for API servers whose clock is behind.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_hours(1);

/// Why a certificate can't be made.
#[derive(Debug, Error)]
pub enum IssueError {
    /// A key can't be made or read, or a certificate can't be signed.
    #[error("failed to make {what}: {source}")]
    Make {
        /// What was to be made.
        what: &'static str,
        /// Why not.
        #[source]
        source: rcgen::Error,
    },
    /// A time is beyond what certificates can say.
    #[error("a certificate can't carry the time {0}")]
    Time(Timestamp),
    /// There is nothing to begin with.
    #[error("there is no CA to take the step {0:?} with")]
    NoMaterial(Step),
}

/// The material after `step`; `None` if the step changes nothing.
pub fn perform(
    step: &Step,
    material: Option<&Material>,
    names: &[String],
    now: Timestamp,
    timings: &Timings,
) -> Result<Option<Material>, IssueError> {
    if let Step::Keep { .. } = step {
        return Ok(None);
    }
    if *step == Step::Create {
        let ca = authority(now, timings)?;
        let serving = serving(&ca, names, now, timings)?;
        return Ok(Some(Material {
            ca,
            serving,
            next: None,
            retired: None,
        }));
    }
    let Some(old) = material else {
        return Err(IssueError::NoMaterial(step.clone()));
    };
    let mut new = old.clone();
    match step {
        Step::Keep { .. } | Step::Create => {}
        Step::Renew(renewal) => {
            let mut names = names.to_vec();
            if *renewal == Renewal::Names {
                // Replicas of two configurations may meet during a rollout; neither takes away the other's name.
                let others = old
                    .serving
                    .names
                    .iter()
                    .filter(|name| !names.contains(name))
                    .cloned()
                    .collect::<Vec<_>>();
                names.extend(others);
            }
            new.serving = serving(&old.ca, &names, now, timings)?;
        }
        Step::Publish { from } => {
            new.next = Some(Next {
                ca: authority(now, timings)?,
                from: *from,
            });
        }
        Step::Switch { until } => {
            if let Some(next) = new.next.take() {
                new.retired = Some(Retired {
                    certificate: old.ca.certificate.clone(),
                    until: *until,
                });
                new.serving = serving(&next.ca, names, now, timings)?;
                new.ca = next.ca;
            }
        }
        Step::Retire => new.retired = None,
    }
    Ok(Some(new))
}

fn authority(now: Timestamp, timings: &Timings) -> Result<Authority, IssueError> {
    let wrap = |source| IssueError::Make {
        what: "a CA",
        source,
    };
    let not_after = plan::after(now, timings.ca);
    // Clients choose among several CAs by name, so each has its own.
    let name = format!("Pilotage webhook CA {now}");
    let key = KeyPair::generate().map_err(wrap)?;
    let mut params = authority_params(&name);
    let not_before = plan::before(now, CLOCK_SKEW);
    (params.not_before, params.not_after) = (date(not_before)?, date(not_after)?);
    let certificate = params.self_signed(&key).map_err(wrap)?.pem();
    Ok(Authority {
        name,
        not_after,
        certificate,
        key: key.serialize_pem(),
    })
}

/// What a signature of the CA shows: its name and key.
fn authority_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn serving(
    ca: &Authority,
    names: &[String],
    now: Timestamp,
    timings: &Timings,
) -> Result<Serving, IssueError> {
    let wrap = |source| IssueError::Make {
        what: "a serving certificate",
        source,
    };
    let not_after = plan::after(now, timings.serving).min(ca.not_after);
    let mut params = CertificateParams::new(names).map_err(wrap)?;
    let common_name = names.first().map_or("pilotage-webhook", String::as_str);
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let not_before = plan::before(now, CLOCK_SKEW);
    (params.not_before, params.not_after) = (date(not_before)?, date(not_after)?);
    let ca_key = KeyPair::from_pem(&ca.key).map_err(wrap)?;
    let key = KeyPair::generate().map_err(wrap)?;
    let issuer = Issuer::new(authority_params(&ca.name), ca_key);
    let certificate = params.signed_by(&key, &issuer).map_err(wrap)?.pem();
    Ok(Serving {
        names: names.to_vec(),
        made: now,
        not_after,
        certificate,
        key: key.serialize_pem(),
    })
}

fn date(at: Timestamp) -> Result<OffsetDateTime, IssueError> {
    OffsetDateTime::from_unix_timestamp(at.as_second()).map_err(|_| IssueError::Time(at))
}
