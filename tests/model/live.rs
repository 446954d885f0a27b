//! From where can all get there?

/// The ordinary steps between states, by the states' numbers. States are added in order.
#[derive(Default)]
pub struct Graph {
    /// Where the targets of each state end.
    ends: Vec<u64>,
    targets: Vec<u32>,
    done: Vec<bool>,
}

impl Graph {
    pub fn edge(&mut self, target: u32) {
        self.targets.push(target);
    }

    /// Ends the list of edges of the state that is now the last.
    pub fn state(&mut self, done: bool) {
        self.ends.push(self.targets.len() as u64);
        self.done.push(done);
    }

    /// The first state from which no state that is done can be reached. A state that was never
    /// expanded, because the search was cut short, counts as done.
    pub fn first_stuck(&self, states: usize) -> Option<u32> {
        let mut reaches = vec![false; states];
        let mut open: Vec<u32> = (0..states as u32).filter(|at| self.is_done(*at)).collect();
        open.iter().for_each(|at| reaches[*at as usize] = true);
        let (starts, sources) = self.reversed(states);
        while let Some(at) = open.pop() {
            let range = starts[at as usize] as usize..starts[at as usize + 1] as usize;
            for source in &sources[range] {
                if !std::mem::replace(&mut reaches[*source as usize], true) {
                    open.push(*source);
                }
            }
        }
        reaches.iter().position(|reaches| !reaches).map(|at| at as u32)
    }

    fn is_done(&self, state: u32) -> bool {
        self.done.get(state as usize).copied().unwrap_or(true)
    }

    /// For each state, where in the second list its sources begin.
    fn reversed(&self, states: usize) -> (Vec<u64>, Vec<u32>) {
        let mut starts = vec![0u64; states + 1];
        for target in &self.targets {
            starts[*target as usize + 1] += 1;
        }
        for at in 0..states {
            starts[at + 1] += starts[at];
        }
        let mut next = starts.clone();
        let mut sources = vec![0u32; self.targets.len()];
        let mut from = 0;
        for (source, end) in self.ends.iter().enumerate() {
            for target in &self.targets[from..*end as usize] {
                let slot = &mut next[*target as usize];
                sources[*slot as usize] = source as u32;
                *slot += 1;
            }
            from = *end as usize;
        }
        (starts, sources)
    }
}

#[test]
fn finds_the_state_without_a_way_out() {
    let mut graph = Graph::default();
    for (targets, done) in [(vec![1, 2], false), (vec![3], false), (vec![2], false), (vec![], true)]
    {
        targets.into_iter().for_each(|target| graph.edge(target));
        graph.state(done);
    }
    assert_eq!(graph.first_stuck(4), Some(2));
    let mut cut = Graph::default();
    cut.edge(1);
    cut.state(false);
    assert_eq!(cut.first_stuck(2), None);
}
