//! Owns the form of the file: its fields, their types, their defaults.

use serde_json::Value;

use super::{
    API_VERSION, ClientConnection, Debugging, KIND, LeaderElection, SchedulerConfiguration, Server,
    parse_duration,
};
use crate::fields::{Field, FieldError, told};

const SECOND: i64 = 1_000_000_000;

/// Features that every component of Kubernetes knows; this one has none of its own.
const FEATURES: [&str; 2] = ["AllAlpha", "AllBeta"];

pub(super) fn read(value: &Value) -> Result<SchedulerConfiguration, FieldError> {
    let root = Field::root(value);
    root.only(&[
        "apiVersion",
        "kind",
        "clientConnection",
        "leaderElection",
        "logLevel",
        "logFormat",
        "server",
        "debugging",
        "schedulers",
        "featureGates",
    ])?;
    for (name, wanted) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        let field = root.get(name)?;
        if field.string()? != Some(wanted) {
            return Err(field.error(wanted));
        }
    }
    let server = root.get("server")?;
    server.only(&["healthProbes", "metrics"])?;
    let schedulers = root.get("schedulers")?;
    schedulers.only(&["backupBucket", "shoot"])?;
    let bucket = schedulers.get("backupBucket")?;
    bucket.only(&["concurrentSyncs"])?;
    let shoot = schedulers.get("shoot")?;
    shoot.only(&["concurrentSyncs", "candidateDeterminationStrategy"])?;
    Ok(SchedulerConfiguration {
        client_connection: client_connection(&root.get("clientConnection")?)?,
        leader_election: leader_election(&root.get("leaderElection")?)?,
        log_level: text(&root.get("logLevel")?, "info")?,
        log_format: text(&root.get("logFormat")?, "json")?,
        health_probes: endpoint(&server.get("healthProbes")?, 10251)?,
        metrics: endpoint(&server.get("metrics")?, 19251)?,
        debugging: debugging(&root.get("debugging")?)?,
        backup_bucket_concurrent_syncs: integer(&bucket.get("concurrentSyncs")?, 2)?,
        shoot_concurrent_syncs: integer(&shoot.get("concurrentSyncs")?, 5)?,
        candidate_determination_strategy: text(
            &shoot.get("candidateDeterminationStrategy")?,
            "SameRegion",
        )?,
        feature_gates: feature_gates(&root.get("featureGates")?)?,
    })
}

fn text(field: &Field<'_>, default: &str) -> Result<String, FieldError> {
    Ok(field.non_empty()?.unwrap_or(default).to_owned())
}

fn integer(field: &Field<'_>, default: i64) -> Result<i64, FieldError> {
    let number = field.integer()?.filter(|number| *number != 0);
    match number.map(i32::try_from) {
        None => Ok(default),
        Some(Ok(number)) => Ok(number.into()),
        Some(Err(_)) => Err(field.error("a whole number of 32 bits")),
    }
}

fn client_connection(field: &Field<'_>) -> Result<ClientConnection, FieldError> {
    field.only(&[
        "kubeconfig",
        "acceptContentTypes",
        "contentType",
        "qps",
        "burst",
    ])?;
    let qps = field.get("qps")?.number()?.filter(|qps| *qps != 0.0);
    Ok(ClientConnection {
        kubeconfig: text(&field.get("kubeconfig")?, "")?,
        accept_content_types: text(&field.get("acceptContentTypes")?, "")?,
        content_type: text(&field.get("contentType")?, "")?,
        qps: qps.unwrap_or(50.0),
        burst: integer(&field.get("burst")?, 100)?,
    })
}

fn leader_election(field: &Field<'_>) -> Result<LeaderElection, FieldError> {
    field.only(&[
        "leaderElect",
        "leaseDuration",
        "renewDeadline",
        "retryPeriod",
        "resourceLock",
        "resourceNamespace",
        "resourceName",
    ])?;
    Ok(LeaderElection {
        leader_elect: field.get("leaderElect")?.boolean()?.unwrap_or(true),
        lease_duration: duration(&field.get("leaseDuration")?, 15 * SECOND)?,
        renew_deadline: duration(&field.get("renewDeadline")?, 10 * SECOND)?,
        retry_period: duration(&field.get("retryPeriod")?, 2 * SECOND)?,
        resource_lock: text(&field.get("resourceLock")?, "leases")?,
        resource_namespace: text(&field.get("resourceNamespace")?, "garden")?,
        resource_name: text(
            &field.get("resourceName")?,
            "gardener-scheduler-leader-election",
        )?,
    })
}

fn duration(field: &Field<'_>, default: i64) -> Result<i64, FieldError> {
    let Some(text) = field.string()? else {
        return Ok(default);
    };
    match parse_duration(text) {
        Ok(0) => Ok(default),
        Ok(nanos) => Ok(nanos),
        Err(_) => Err(field.error("a duration such as 15s or 1m30s")),
    }
}

fn endpoint(field: &Field<'_>, port: i64) -> Result<Server, FieldError> {
    field.only(&["bindAddress", "port"])?;
    let port_field = field.get("port")?;
    let port = integer(&port_field, port)?;
    if u16::try_from(port).is_err() {
        return Err(port_field.error("a port, 1 to 65535"));
    }
    Ok(Server {
        bind_address: text(&field.get("bindAddress")?, "")?,
        port,
    })
}

fn debugging(field: &Field<'_>) -> Result<Debugging, FieldError> {
    field.only(&["enableProfiling", "enableContentionProfiling"])?;
    let flag = |name: &str| Ok(field.get(name)?.boolean()?.unwrap_or(false));
    Ok(Debugging {
        profiling: flag("enableProfiling")?,
        contention_profiling: flag("enableContentionProfiling")?,
    })
}

fn feature_gates(field: &Field<'_>) -> Result<Vec<(String, bool)>, FieldError> {
    let mut gates = Vec::new();
    for (name, gate) in field.entries()? {
        if !FEATURES.contains(&name) {
            return Err(FieldError {
                path: field.path().to_owned(),
                expected: format!("no other features than {}", FEATURES.join(", ")),
                found: format!("the feature {:?}", told(name)),
            });
        }
        let on = gate.boolean()?.ok_or_else(|| gate.error("true or false"))?;
        gates.push((name.to_owned(), on));
    }
    Ok(gates)
}
