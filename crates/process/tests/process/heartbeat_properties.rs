//! What holds of heartbeats in any network.

use crate::heartbeat_network::{Database, Network};
use process::heartbeat::Router;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Groups of all databases have names of their own, or the same ones everywhere as sites that were set up alike.
#[derive(Clone, Debug)]
struct Plan {
    databases: usize,
    /// Links: from, to, Pumps in between.
    links: Vec<(usize, usize, usize)>,
    /// One Extract per database, whose trail all its links read; else one per link.
    shares: bool,
}

fn plans() -> impl Strategy<Value = Plan> {
    (2_usize..5).prop_flat_map(|databases| {
        let link = (0..databases, 0..databases, 0_usize..4);
        (prop::collection::vec(link, 1..7), any::<bool>()).prop_map(move |(links, shares)| {
            let mut seen = BTreeSet::new();
            let links = links.into_iter().filter(|(from, to, _)| from != to && seen.insert((*from, *to)));
            Plan { databases, links: links.collect(), shares }
        })
    })
}

fn network(plan: &Plan) -> Network {
    let mut network = Network::default();
    let name = |number: usize| format!("d{number}");
    for number in 0..plan.databases {
        network.databases.insert(name(number), Database::default());
    }
    for (number, (from, to, pumps)) in plan.links.iter().enumerate() {
        let extract = if plan.shares { format!("E{from}") } else { format!("E{from}L{number}") };
        let mut trail = if plan.shares { format!("t{from}") } else { format!("t{from}/{number}") };
        if !network.extracts.iter().any(|(known, ..)| *known == extract) {
            network.extracts.push((extract, name(*from), trail.clone()));
        }
        for pump in 0..*pumps {
            let next = format!("l{number}p{pump}");
            network.routers.push((Router::path(&format!("P{number}"), &format!("x{pump}")), trail, next.clone()));
            trail = next;
        }
        network.replicats.push((format!("R{number}"), trail, name(*to)));
    }
    network
}

/// The pairs of ways that the rows of all databases name.
fn pairs(network: &Network) -> Vec<(String, String)> {
    let rows = network.databases.iter().flat_map(|(name, database)| {
        database.rows.values().map(move |stored| {
            (name.clone(), format!("{:?} {:?}", stored.arrival.incoming.way(), stored.arrival.outgoing.way()))
        })
    });
    rows.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn heartbeats_of_any_network_settle_with_one_row_for_each_pair_of_ways(plan in plans()) {
        let mut network = network(&plan);
        for _ in 0..plan.databases + 4 {
            network.stamp_all();
        }
        let settled = pairs(&network);
        let (rows, written) = (settled.len(), network.written);
        network.stamp_all();
        let round = network.written - written;
        for _ in 0..4 {
            network.stamp_all();
        }
        // No row is added any more, and no round costs more than the one before: nothing goes round.
        prop_assert_eq!(&pairs(&network), &settled);
        prop_assert_eq!(network.written, written + 5 * round);
        // A pair of ways is in a database once.
        prop_assert_eq!(settled.iter().collect::<BTreeSet<_>>().len(), rows);
        // Every link brings the stamps of the database where it begins.
        for (from, to, pumps) in &plan.links {
            let target = &network.databases[&format!("d{to}")];
            let arrived = target.rows.values().any(|stored| {
                let hops = stored.arrival.incoming.routing_path.as_deref().map_or(0, |path| path.split(',').count());
                stored.arrival.remote_database == format!("d{from}") && hops == *pumps && stored.writes > 1
            });
            prop_assert!(arrived, "nothing of d{from} arrived at d{to}");
        }
        // What is left of lists is closed, and whatever goes out of a database goes back the way it came: to the sender.
        for database in network.databases.values() {
            for stored in database.rows.values() {
                for direction in [&stored.arrival.incoming, &stored.arrival.outgoing] {
                    prop_assert!(!direction.routing_path.as_deref().unwrap_or_default().contains('*'));
                }
            }
        }
    }

    #[test]
    fn a_two_way_link_tells_both_lags_at_both_ends(pumps in 0_usize..4, back in 0_usize..4) {
        let plan = Plan { databases: 2, links: vec![(0, 1, pumps), (1, 0, back)], shares: true };
        let mut network = network(&plan);
        for _ in 0..4 {
            network.stamp_all();
        }
        for name in ["d0", "d1"] {
            let both = network.databases[name].rows.values().filter(|stored| {
                stored.arrival.incoming.heartbeat_time.is_some() && stored.arrival.outgoing.replicat_time.is_some()
            });
            prop_assert_eq!(both.count(), 1);
        }
    }

    #[test]
    fn a_record_that_names_its_way_follows_it_and_no_other(others in 1_usize..6, own in 0_usize..6) {
        let own = own.min(others);
        // One trail, many paths: the list names one of them.
        let mut network = Network::default();
        network.databases.insert("a".to_owned(), Database::default());
        network.extracts.push(("E".to_owned(), "a".to_owned(), "t".to_owned()));
        for number in 0..=others {
            let name = format!("b{number}");
            network.databases.insert(name.clone(), Database::default());
            network.routers.push((Router::path("DS", &format!("p{number}")), "t".to_owned(), format!("t{number}")));
            network.replicats.push((format!("R{number}"), format!("t{number}"), name));
        }
        let name = format!("b{own}");
        network.extracts.push(("EB".to_owned(), name.clone(), "back".to_owned()));
        network.replicats.push(("RA".to_owned(), "back".to_owned(), "a".to_owned()));
        network.stamp("a");
        network.stamp(&name);
        network.stamp("a");
        for number in 0..=others {
            let with_way_back = network.databases[&format!("b{number}")]
                .rows
                .values()
                .filter(|stored| stored.arrival.outgoing.extract.as_deref() == Some("EB"))
                .filter(|stored| stored.arrival.outgoing.replicat.as_deref() == Some("RA"))
                .filter(|stored| stored.arrival.local_database == format!("b{number}"));
            prop_assert_eq!(with_way_back.count(), usize::from(number == own));
        }
    }
}
