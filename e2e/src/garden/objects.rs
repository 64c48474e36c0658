//! Objects of a garden, about as large as real ones. Pure.

use serde_json::{Value, json};

/// Namespace of the Shoots.
pub const NAMESPACE: &str = "garden-dev";
const API_VERSION: &str = "core.gardener.cloud/v1beta1";
/// Seeds are in these regions, one after the other.
pub const REGIONS: [&str; 10] = [
    "eu-central-1",
    "eu-west-1",
    "eu-north-1",
    "us-east-1",
    "us-west-2",
    "ap-south-1",
    "ap-southeast-1",
    "ap-northeast-1",
    "sa-east-1",
    "ca-central-1",
];

/// The profile of all Shoots.
pub fn profile() -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": "CloudProfile",
        "metadata": {"name": "aws"},
        "spec": {"type": "aws", "seedSelector": {"matchLabels": {"seed.gardener.cloud/landscape": "live"}}},
    })
}

/// The project of all Shoots.
pub fn project() -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": "Project",
        "metadata": {"name": "dev"},
        "spec": {"namespace": NAMESPACE},
    })
}

/// A Seed with room for `room` Shoots. Every eleventh is protected, so that each region has others.
pub fn seed(number: usize, room: usize) -> Value {
    let region = REGIONS[number % REGIONS.len()];
    let condition = |kind: &str| {
        json!({
            "type": kind, "status": "True", "reason": "Fine", "message": format!("{kind} is as it should be."),
            "lastTransitionTime": "2026-01-01T00:00:00Z", "lastUpdateTime": "2026-01-01T00:00:00Z",
        })
    };
    let conditions = [
        "GardenletReady",
        "BackupBucketsReady",
        "ExtensionsReady",
        "SeedSystemComponentsHealthy",
    ];
    let conditions = conditions.map(condition);
    let net = number % 200;
    json!({
        "apiVersion": API_VERSION, "kind": "Seed",
        "metadata": {
            "name": format!("aws-{number:04}"),
            "labels": {"seed.gardener.cloud/landscape": "live", "seed.gardener.cloud/region": region},
        },
        "spec": {
            "backup": {"provider": "aws", "region": region, "credentialsRef": {"apiVersion": "v1",
            "kind": "Secret", "name": "backup", "namespace": "garden"}},
            "dns": {"internal": {"type": "aws-route53",
            "domain": format!("internal.seed-{number}.example.com")},
            "defaults": [{"domain": "shoots.example.com", "type": "aws-route53"}]},
            "ingress": {"domain": format!("ingress.seed-{number}.example.com"), "controller": {"kind": "nginx"}},
            "networks": {
                "nodes": format!("10.{net}.0.0/16"), "pods": format!("100.{net}.0.0/16"),
                "services": format!("172.{net}.0.0/16"),
                "shootDefaults": {"pods": "100.96.0.0/11", "services": "100.64.0.0/13"}, "ipFamilies": ["IPv4"],
            },
            "provider": {"type": "aws", "region": region, "zones": [format!("{region}a"), format!("{region}b"),
            format!("{region}c")]},
            "settings": {"scheduling": {"visible": true}, "excessCapacityReservation": {"enabled": true},
            "verticalPodAutoscaler": {"enabled": true}},
            "taints": if number % 11 == 10 { json!([{"key": "seed.gardener.cloud/protected"}]) } else { json!([]) },
        },
        "status": {
            "gardener": {"id": "x", "name": "gardenlet", "version": "v1.140.0"}, "kubernetesVersion": "1.36.3",
            "observedGeneration": 1,
            "capacity": {"shoots": room.to_string()}, "allocatable": {"shoots": room.to_string()},
            "conditions": conditions,
            "lastOperation": {"type": "Reconcile", "state": "Succeeded", "progress": 100,
            "description": "Seed reconciliation succeeded", "lastUpdateTime": "2026-01-01T00:00:00Z"},
        },
    })
}

/// A Shoot.
pub fn shoot(number: usize) -> Value {
    let region = REGIONS[number % REGIONS.len()];
    let worker = |name: &str| {
        json!({
            "name": name, "minimum": 1, "maximum": 5, "maxSurge": 1, "maxUnavailable": 0,
            "zones": [format!("{region}a"), format!("{region}b")],
            "machine": {"type": "m7i.large", "architecture": "amd64", "image": {"name": "gardenlinux",
            "version": "1592.9.0"}},
            "volume": {"type": "gp3", "size": "50Gi"}, "systemComponents": {"allow": true},
            "updateStrategy": "AutoRollingUpdate",
        })
    };
    json!({
        "apiVersion": API_VERSION, "kind": "Shoot",
        "metadata": {
            "name": format!("shoot-{number:05}"), "namespace": NAMESPACE,
            "annotations": {"gardener.cloud/created-by": "system:serviceaccount:garden-dev:dashboard"},
        },
        "spec": {
            "cloudProfile": {"kind": "CloudProfile", "name": "aws"}, "schedulerName": "default-scheduler",
            "purpose": "evaluation", "region": region,
            "credentialsBindingName": "aws", "hibernation": {"schedules": [{"start": "00 18 * * 1,2,3,4,5",
            "location": "Europe/Berlin"}]},
            "kubernetes": {"version": "1.36.3", "kubeAPIServer": {"requests": {"maxNonMutatingInflight": 400}},
            "kubelet": {"failSwapOn": true}},
            "maintenance": {"autoUpdate": {"kubernetesVersion": true, "machineImageVersion": true},
            "timeWindow": {"begin": "220000+0100", "end": "230000+0100"}},
            "networking": {"type": "cilium", "nodes": "10.250.0.0/16", "pods": "100.96.0.0/11",
            "services": "100.64.0.0/13", "ipFamilies": ["IPv4"]},
            "provider": {
                "type": "aws", "workers": [worker("small"), worker("large")],
                "infrastructureConfig": {"apiVersion": "aws.provider.extensions.gardener.cloud/v1alpha1",
                "kind": "InfrastructureConfig", "networks": {"vpc": {"cidr": "10.250.0.0/16"}}},
            },
            "addons": {"kubernetesDashboard": {"enabled": false}, "nginxIngress": {"enabled": false}},
        },
    })
}
