//! The plugins of a stock kube-scheduler, and which of them Pilotage has. This is the one list of both: what isn't here
//! yet is left out of both configurations.

/// A plugin of kube-scheduler's default profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stock {
    /// Its name.
    pub name: &'static str,
    /// Whether it filters nodes.
    pub filters: bool,
    /// Its default weight, if it scores nodes.
    pub weight: Option<u32>,
    /// Whether Pilotage has it, and cases are drawn for it.
    pub here: bool,
}

const fn plugin(name: &'static str, filters: bool, weight: Option<u32>, here: bool) -> Stock {
    Stock {
        name,
        filters,
        weight,
        here,
    }
}

/// All of them, in the default order.
pub const STOCK: &[Stock] = &[
    plugin("SchedulingGates", false, None, true),
    plugin("PrioritySort", false, None, true),
    plugin("NodeUnschedulable", true, None, true),
    plugin("NodeName", true, None, true),
    plugin("TaintToleration", true, Some(3), true),
    plugin("NodeAffinity", true, Some(2), true),
    plugin("NodePorts", true, None, true),
    plugin("NodeResourcesFit", true, Some(1), true),
    plugin("VolumeRestrictions", true, None, false),
    plugin("NodeVolumeLimits", true, None, false),
    plugin("VolumeBinding", true, Some(1), false),
    plugin("VolumeZone", true, None, false),
    plugin("PodTopologySpread", true, Some(2), true),
    plugin("InterPodAffinity", true, Some(2), true),
    plugin("DynamicResources", true, Some(2), false),
    plugin("DefaultPreemption", false, None, true),
    plugin("NodeResourcesBalancedAllocation", false, Some(1), true),
    plugin("ImageLocality", false, Some(1), true),
    plugin("DefaultBinder", false, None, true),
    plugin("NodeDeclaredFeatures", true, None, true),
];

/// The plugins that both schedulers run, in the default order.
pub fn here() -> impl Iterator<Item = &'static Stock> {
    STOCK.iter().filter(|plugin| plugin.here)
}

/// Whether Pilotage has the plugin.
pub fn is_here(name: &str) -> bool {
    here().any(|plugin| plugin.name == name)
}
