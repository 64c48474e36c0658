//! A profile as both schedulers get it: which plugins in which order, their weights and arguments.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::plugins::{STOCK, here};

/// The name of the profile, and the `schedulerName` of all pods.
pub const PROFILE: &str = "default-scheduler";

/// The feature gate by which tolerations compare integers; off by default.
pub const COMPARES_TAINTS: &str = "TaintTolerationComparisonOperators";

/// A plugin of the profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enabled {
    /// Its name.
    pub name: String,
    /// Its weight, if it scores nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
}

/// A profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Configuration {
    /// The plugins, in the order in which they run.
    pub plugins: Vec<Enabled>,
    /// Arguments by plugin, as in a `KubeSchedulerConfiguration`, without kind and version.
    #[serde(default)]
    pub arguments: BTreeMap<String, Value>,
    /// Feature gates that are otherwise than by default.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gates: BTreeMap<String, bool>,
}

impl Default for Configuration {
    /// The default profile, as far as Pilotage has its plugins.
    fn default() -> Self {
        let plugins = here().map(|plugin| Enabled {
            name: plugin.name.to_owned(),
            weight: plugin.weight,
        });
        Self {
            plugins: plugins.collect(),
            arguments: BTreeMap::new(),
            gates: BTreeMap::new(),
        }
    }
}

impl Configuration {
    /// The arguments of a plugin, if it has any.
    pub fn arguments(&self, plugin: &str) -> Option<&Value> {
        self.arguments.get(plugin)
    }

    /// The arguments of preemption, null if it has none; `None` if nobody is preempted.
    pub fn preemption(&self) -> Option<&Value> {
        const NAME: &str = "DefaultPreemption";
        let runs = self.plugins.iter().any(|plugin| plugin.name == NAME);
        runs.then(|| self.arguments(NAME).unwrap_or(&Value::Null))
    }

    /// Whether a feature gate that is off by default is on.
    pub fn is_on(&self, gate: &str) -> bool {
        self.gates.get(gate) == Some(&true)
    }

    /// The names of the plugins that filter nodes, in order.
    pub fn filters(&self) -> Vec<&str> {
        self.names(|plugin| plugin.filters)
    }

    /// The names of the plugins that score nodes, in order.
    pub fn scores(&self) -> Vec<&str> {
        self.names(|plugin| plugin.weight.is_some())
    }

    fn names(&self, which: impl Fn(&crate::plugins::Stock) -> bool) -> Vec<&str> {
        let is_one = |name: &str| STOCK.iter().any(|stock| stock.name == name && which(stock));
        let names = self.plugins.iter().map(|plugin| plugin.name.as_str());
        names.filter(|name| is_one(name)).collect()
    }

    /// The same as a `KubeSchedulerConfiguration`.
    pub fn to_api(&self) -> Value {
        let arguments = self.arguments.iter().map(|(plugin, arguments)| {
            let mut arguments = arguments.clone();
            arguments["apiVersion"] = json!("kubescheduler.config.k8s.io/v1");
            arguments["kind"] = json!(format!("{plugin}Args"));
            json!({"name": plugin, "args": arguments})
        });
        json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "percentageOfNodesToScore": 100,
            "profiles": [{
                "schedulerName": PROFILE,
                "plugins": {"multiPoint": {"disabled": [{"name": "*"}], "enabled": self.plugins}},
                "pluginConfig": arguments.collect::<Vec<_>>(),
            }],
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Configuration;

    #[test]
    fn the_api_form_names_kind_and_version_of_each_argument() {
        let mut configuration = Configuration::default();
        let arguments = json!({"ignoredResources": ["example.com/gpu"]});
        configuration
            .arguments
            .insert("NodeResourcesFit".to_owned(), arguments);
        let api = configuration.to_api();
        let profile = &api["profiles"][0];
        assert_eq!(
            profile["pluginConfig"][0],
            json!({"name": "NodeResourcesFit", "args": {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "NodeResourcesFitArgs",
                "ignoredResources": ["example.com/gpu"],
            }})
        );
        let enabled = profile["plugins"]["multiPoint"]["enabled"].as_array();
        let taints = json!({"name": "TaintToleration", "weight": 3});
        assert!(enabled.is_some_and(|enabled| enabled.contains(&taints)));
    }
}
