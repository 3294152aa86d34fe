//! Namespaces separate objects of the same name.

use super::Case;
use super::support::ObjectContent;
use benthic_core::{ListRequest, Namespaces, ObjectId};

/// Lists the requested namespaces and returns the objects that this case created.
async fn listed(case: &Case<'_>, namespaces: Namespaces, prefix: &str) -> Vec<(String, String)> {
    let request = ListRequest { namespaces, prefix: prefix.to_owned(), after: None, objects_max: 50 };
    let pages = case.list_pages(&request, None).await;
    let ours = pages.iter().flat_map(|page| &page.objects).filter(|object| {
        object.namespace().starts_with(case.namespace()) || object.name().starts_with(case.namespace())
    });
    let mut listed: Vec<_> =
        ours.map(|object| (object.namespace().to_owned(), object.name().to_owned())).collect();
    listed.sort();
    listed
}

pub(super) async fn the_same_name_is_another_object_in_another_namespace(case: &Case<'_>) {
    let base = case.namespace();
    // All cases share the default namespace, so the object's name is unique to this case.
    let namespaces =
        [String::new(), base.to_owned(), format!("{base}x"), format!("{base}/"), format!("{base}\u{1}")];
    let objects = namespaces.clone().map(|namespace| ObjectId::in_namespace(namespace, base).unwrap());
    for object in &objects {
        case.pool.write_full(object, object.namespace().to_owned()).await.unwrap();
    }
    for object in &objects {
        assert_eq!(case.state(object).await, Some(ObjectContent::data(object.namespace().to_owned())));
    }
    case.pool.remove(&objects[0]).await.unwrap();
    assert_eq!(case.state(&objects[0]).await, None);
    for object in &objects[1..] {
        assert_eq!(case.state(object).await, Some(ObjectContent::data(object.namespace().to_owned())));
    }
}

pub(super) async fn namespace_and_name_are_not_concatenated(case: &Case<'_>) {
    let base = case.namespace();
    let ids = [(format!("{base}a"), "b/c"), (format!("{base}a/b"), "c"), (base.to_owned(), "ab/c")];
    for (index, (namespace, name)) in ids.iter().enumerate() {
        let object = ObjectId::in_namespace(namespace.clone(), *name).unwrap();
        case.pool.write_full(&object, index.to_string()).await.unwrap();
    }
    for (index, (namespace, name)) in ids.iter().enumerate() {
        let object = ObjectId::in_namespace(namespace.clone(), *name).unwrap();
        assert_eq!(case.state(&object).await, Some(ObjectContent::data(index.to_string())));
        assert_eq!(
            listed(case, Namespaces::One(namespace.clone()), "").await,
            [(namespace.clone(), (*name).to_owned())]
        );
    }
}

pub(super) async fn one_namespace_or_all_are_listed(case: &Case<'_>) {
    let base = case.namespace();
    let mut created = Vec::new();
    for namespace in [String::new(), base.to_owned(), format!("{base}.2")] {
        for name in ["a", "b", "ca"] {
            let name = format!("{base} {name}");
            let object = ObjectId::in_namespace(namespace.clone(), name.clone()).unwrap();
            case.pool.write_full(&object, "x").await.unwrap();
            created.push((namespace.clone(), name));
        }
    }
    created.sort();
    assert_eq!(listed(case, Namespaces::All, "").await, created);
    for namespace in ["".to_owned(), base.to_owned(), format!("{base}.2")] {
        let expected: Vec<_> = created.iter().filter(|(found, _)| *found == namespace).cloned().collect();
        assert_eq!(listed(case, Namespaces::One(namespace), "").await, expected);
    }
    let expected: Vec<_> = created.iter().filter(|(_, name)| name.ends_with("ca")).cloned().collect();
    assert_eq!(listed(case, Namespaces::All, &format!("{base} c")).await, expected);
    assert_eq!(listed(case, Namespaces::One(base.to_owned()), &format!("{base} c")).await, expected[1..2]);
}
