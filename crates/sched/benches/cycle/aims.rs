//! How many times cheaper than the oracle's our cycles are to be in the same run, and how little they may grow with the
//! cluster. Knows nothing of how that is measured.

use crate::shape::Shape;

/// What a line of the table says, in CPU µs a pod.
pub(crate) struct Line {
    pub(crate) shape: Shape,
    pub(crate) nodes: usize,
    /// Ours, which looks at all nodes.
    pub(crate) ours: f64,
    /// Theirs, if the oracle was asked.
    pub(crate) theirs: Option<Theirs>,
}

/// The oracle's cost.
pub(crate) struct Theirs {
    /// With all nodes.
    pub(crate) all: f64,
    /// With kube-scheduler's stock share of them.
    pub(crate) share: f64,
}

/// How many times cheaper ours is to be, at least.
struct Aim {
    shapes: &'static [Shape],
    nodes: &'static [usize],
    /// Beside the oracle with its stock share of the nodes, otherwise with all of them.
    of_share: bool,
    least: f64,
}

/// What was said of pods like these is known.
const KNOWN: &[Shape] = &[Shape::Plain, Shape::Classes];
/// Nothing is known of a pod's class, or not any more; no node will do for half of them; or they are spread by default.
const LEAST_KNOWN: &[Shape] = &[
    Shape::Miss,
    Shape::Unschedulable,
    Shape::Rotation,
    Shape::Service,
];
/// Plugins look at other pods.
const OTHERS: &[Shape] = &[Shape::Spread, Shape::Anti, Shape::NamespaceAffinity];

const AIMS: &[Aim] = &[
    Aim {
        shapes: KNOWN,
        nodes: &[1_000],
        of_share: false,
        least: 50.0,
    },
    Aim {
        shapes: KNOWN,
        nodes: &[5_000],
        of_share: false,
        least: 200.0,
    },
    Aim {
        shapes: KNOWN,
        nodes: &[1_000, 5_000],
        of_share: true,
        least: 20.0,
    },
    Aim {
        shapes: LEAST_KNOWN,
        nodes: &[1_000, 5_000],
        of_share: false,
        least: 10.0,
    },
    Aim {
        shapes: OTHERS,
        nodes: &[1_000],
        of_share: false,
        least: 30.0,
    },
    Aim {
        shapes: OTHERS,
        nodes: &[5_000],
        of_share: false,
        least: 100.0,
    },
    Aim {
        shapes: &[Shape::Preempt],
        nodes: &[5_000],
        of_share: false,
        least: 20.0,
    },
];

/// Ten times as many nodes may cost so many times as much where what was said is known.
const GROWTH: (usize, usize, f64) = (5_000, 50_000, 15.0);

/// The aims that these lines miss, one a text.
pub(crate) fn missed(lines: &[Line]) -> Vec<String> {
    let cheaper = AIMS.iter().flat_map(|aim| {
        let meant = lines.iter().filter(move |line| {
            aim.shapes.contains(&line.shape) && aim.nodes.contains(&line.nodes)
        });
        meant.filter_map(move |line| too_dear(aim, line))
    });
    let growing = KNOWN.iter().filter_map(|shape| too_steep(*shape, lines));
    cheaper.chain(growing).collect()
}

fn too_dear(aim: &Aim, line: &Line) -> Option<String> {
    let theirs = line.theirs.as_ref()?;
    let (theirs, which) = if aim.of_share {
        (theirs.share, "its stock share of the nodes")
    } else {
        (theirs.all, "all nodes")
    };
    let times = theirs / line.ours;
    let is_met = times >= aim.least;
    (!is_met).then(|| {
        let (name, nodes, least) = (line.shape.name(), line.nodes, aim.least);
        format!("{name} {nodes}: {times:.1}x beside the oracle with {which}; {least}x is the least")
    })
}

fn too_steep(shape: Shape, lines: &[Line]) -> Option<String> {
    let (few, many, most) = GROWTH;
    let cost = |nodes: usize| {
        let mut lines = lines.iter();
        let line = lines.find(|line| line.shape == shape && line.nodes == nodes);
        line.map(|line| line.ours)
    };
    let times = cost(many)? / cost(few)?;
    let is_met = times <= most;
    let name = shape.name();
    (!is_met)
        .then(|| format!("{name} {many}: {times:.1}x what {few} nodes cost; {most}x is the most"))
}
