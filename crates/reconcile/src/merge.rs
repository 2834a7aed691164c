//! Which rows of two ordered lists belong together.

use crate::{Error, RowVerdict, Side};
use database::compare::RowMark;
use std::cmp::Ordering;

/// A list of row marks, read one after another.
pub(crate) trait Marks {
    /// The next mark, or `None` at the end.
    fn next(&mut self) -> Result<Option<RowMark>, Error>;
}

/// Merges two lists and tells `found` of every row that has no equal on the other side.
///
/// Rows of one identity form a group, which may hold several on either side: a table without a key holds equal rows, and
/// what is a key at the source need not be one at the target. Within a group equal rows pair up first; of those left over,
/// one on each side make a row that differs, the rest are missing or extra. Memory is two marks and an identity.
///
/// Returns how many marks each side gave.
///
/// # Errors
/// Those of the lists; [`Error::Contradiction`] when a list is out of order.
pub(crate) fn merge(
    source: &mut dyn Marks,
    target: &mut dyn Marks,
    found: &mut dyn FnMut(RowVerdict, &[u8]),
) -> Result<(u64, u64), Error> {
    let mut source = Ordered { marks: source, side: Side::Source, count: 0 };
    let mut target = Ordered { marks: target, side: Side::Target, count: 0 };
    let (mut left, mut right) = (source.first()?, target.first()?);
    let mut group = Group::default();
    loop {
        let order = match (&left, &right) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(left), Some(right)) => left.cmp(right),
        };
        if order != Ordering::Greater
            && let Some(mark) = &left
        {
            group.enter(&mark.identity, found);
            group.only_at_source += u64::from(order == Ordering::Less);
        }
        if order == Ordering::Greater
            && let Some(mark) = &right
        {
            group.enter(&mark.identity, found);
            group.only_at_target += 1;
        }
        if order != Ordering::Greater {
            left = source.after(left)?;
        }
        if order != Ordering::Less {
            right = target.after(right)?;
        }
    }
    group.settle(found);
    Ok((source.count, target.count))
}

#[derive(Default)]
struct Group {
    identity: Option<Vec<u8>>,
    only_at_source: u64,
    only_at_target: u64,
}

impl Group {
    fn enter(&mut self, identity: &[u8], found: &mut dyn FnMut(RowVerdict, &[u8])) {
        if self.identity.as_deref() != Some(identity) {
            self.settle(found);
            self.identity = Some(identity.to_vec());
        }
    }

    fn settle(&mut self, found: &mut dyn FnMut(RowVerdict, &[u8])) {
        let Some(identity) = self.identity.take() else { return };
        let differing = self.only_at_source.min(self.only_at_target);
        let mut tell = |verdict, times| (0..times).for_each(|_| found(verdict, &identity));
        tell(RowVerdict::Different, differing);
        tell(RowVerdict::MissingAtTarget, self.only_at_source - differing);
        tell(RowVerdict::ExtraAtTarget, self.only_at_target - differing);
        (self.only_at_source, self.only_at_target) = (0, 0);
    }
}

/// A list that is watched: out of order it would pass for differences that are none.
struct Ordered<'m> {
    marks: &'m mut dyn Marks,
    side: Side,
    count: u64,
}

impl Ordered<'_> {
    fn first(&mut self) -> Result<Option<RowMark>, Error> {
        let mark = self.marks.next()?;
        self.count += u64::from(mark.is_some());
        Ok(mark)
    }

    fn after(&mut self, previous: Option<RowMark>) -> Result<Option<RowMark>, Error> {
        let mark = self.first()?;
        if mark.is_some() && mark < previous {
            return Err(Error::Contradiction { side: self.side, what: "rows came out of order".to_owned() });
        }
        Ok(mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    struct List(std::vec::IntoIter<RowMark>);

    impl Marks for List {
        fn next(&mut self) -> Result<Option<RowMark>, Error> {
            Ok(self.0.next())
        }
    }

    fn list(rows: &[(u8, u8)]) -> List {
        let mark = |&(identity, digest): &(u8, u8)| RowMark { identity: vec![identity], digest: [digest; 16] };
        List(rows.iter().map(mark).collect::<Vec<_>>().into_iter())
    }

    fn sorted(mut rows: Vec<(u8, u8)>) -> Vec<(u8, u8)> {
        rows.sort_unstable();
        rows
    }

    fn merged(source: &[(u8, u8)], target: &[(u8, u8)]) -> Vec<(u8, RowVerdict)> {
        let mut findings = Vec::new();
        let mut note = |verdict, identity: &[u8]| findings.push((identity[0], verdict));
        let counts = merge(&mut list(source), &mut list(target), &mut note).expect("ordered lists");
        assert_eq!(counts, (source.len() as u64, target.len() as u64));
        findings
    }

    #[test]
    fn rows_are_missing_extra_or_different() {
        use RowVerdict::*;
        assert_eq!(merged(&[], &[]), []);
        assert_eq!(merged(&[(1, 1), (2, 2)], &[(1, 1), (2, 2)]), []);
        assert_eq!(
            merged(&[(1, 1), (2, 2), (4, 4)], &[(2, 3), (3, 3), (4, 4)]),
            [(1, MissingAtTarget), (2, Different), (3, ExtraAtTarget)]
        );
    }

    #[test]
    fn equal_rows_count_as_often_as_they_are_there() {
        use RowVerdict::*;
        assert_eq!(merged(&[(1, 1), (1, 1), (1, 1)], &[(1, 1)]), [(1, MissingAtTarget), (1, MissingAtTarget)]);
        assert_eq!(merged(&[(1, 1)], &[(1, 1), (1, 1), (1, 2)]), [(1, ExtraAtTarget), (1, ExtraAtTarget)]);
        assert_eq!(merged(&[(1, 1), (1, 3)], &[(1, 2), (1, 3), (1, 4)]), [(1, Different), (1, ExtraAtTarget)]);
    }

    #[test]
    fn a_list_out_of_order_is_no_evidence() {
        let outcome = merge(&mut list(&[(2, 1), (1, 1)]), &mut list(&[(1, 1), (2, 1)]), &mut |_, _| {});
        assert!(matches!(outcome, Err(Error::Contradiction { side: Side::Source, .. })));
    }

    proptest! {
        #[test]
        fn what_is_found_agrees_with_counting(
            source in prop::collection::vec((0_u8..6, 0_u8..3), 0..20),
            target in prop::collection::vec((0_u8..6, 0_u8..3), 0..20),
        ) {
            let findings = merged(&sorted(source.clone()), &sorted(target.clone()));
            // The model: per identity, how many rows of each side are left when equal ones are struck out.
            let mut left: BTreeMap<(u8, u8), i64> = BTreeMap::new();
            source.iter().for_each(|row| *left.entry(*row).or_default() += 1);
            target.iter().for_each(|row| *left.entry(*row).or_default() -= 1);
            for identity in 0..6 {
                let counts = left.iter().filter(|((other, _), _)| *other == identity).map(|(_, count)| *count);
                let at_source: i64 = counts.clone().filter(|count| *count > 0).sum();
                let at_target: i64 = -counts.filter(|count| *count < 0).sum::<i64>();
                let told = |verdict| findings.iter().filter(|finding| **finding == (identity, verdict)).count() as i64;
                prop_assert_eq!(told(RowVerdict::Different), at_source.min(at_target));
                prop_assert_eq!(told(RowVerdict::MissingAtTarget), (at_source - at_target).max(0));
                prop_assert_eq!(told(RowVerdict::ExtraAtTarget), (at_target - at_source).max(0));
            }
        }
    }
}
