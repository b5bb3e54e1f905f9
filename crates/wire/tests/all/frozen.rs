//! Checks that published parts of the protocol never change. The file `protocol.txt` lists all published fields, values
//! and methods, and the test compares that list with the files in `proto/`. Additions are allowed.

use std::collections::BTreeSet;
use std::path::Path;

use firstseen_wire::proto::FILE_DESCRIPTOR_SET;
use prost::Message;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet};

/// Returns one line for each field, each value of an enum, and each method.
fn published() -> BTreeSet<String> {
    let files = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).expect("the generated descriptors are valid").file;
    let mut lines = BTreeSet::new();
    for file in &files {
        for message in &file.message_type {
            assert!(
                message.nested_type.is_empty() && message.enum_type.is_empty(),
                "this test does not check nested types"
            );
            lines.extend(message.field.iter().map(|field| field_line(file, message, field)));
        }
        for (values, value) in file.enum_type.iter().flat_map(|values| values.value.iter().map(move |v| (values, v))) {
            lines.insert(format!("{}.{}.{} {}", file.package(), values.name(), value.name(), value.number()));
        }
        for (service, method) in
            file.service.iter().flat_map(|service| service.method.iter().map(move |m| (service, m)))
        {
            let stream = |streams| if streams { "stream " } else { "" };
            lines.insert(format!(
                "{}.{}/{} ({}{}) ({}{})",
                file.package(),
                service.name(),
                method.name(),
                stream(method.client_streaming()),
                method.input_type(),
                stream(method.server_streaming()),
                method.output_type(),
            ));
        }
    }
    lines
}

fn field_line(file: &FileDescriptorProto, message: &DescriptorProto, field: &FieldDescriptorProto) -> String {
    let kind = match field.r#type() {
        Type::Message | Type::Enum => field.type_name().to_owned(),
        scalar => scalar.as_str_name().trim_start_matches("TYPE_").to_lowercase(),
    };
    let repeated = if field.label() == Label::Repeated { "repeated " } else { "" };
    let one_of = field.oneof_index.map(|index| format!(" oneof {}", message.oneof_decl[index as usize].name()));
    let (package, name, field_name) = (file.package(), message.name(), field.name());
    format!("{package}.{name}.{field_name} {} {repeated}{kind}{}", field.number(), one_of.unwrap_or_default())
}

#[test]
fn what_was_published_is_still_there() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/protocol.txt");
    let text = std::fs::read_to_string(&path).expect("protocol.txt");
    let frozen: BTreeSet<String> = text.lines().map(str::to_owned).collect();
    let now = published();
    let gone: Vec<_> = frozen.difference(&now).collect();
    assert!(gone.is_empty(), "removed, renumbered or of another type, which old peers would misread: {gone:#?}");
    let new: Vec<&str> = now.difference(&frozen).map(String::as_str).collect();
    assert!(new.is_empty(), "new in the protocol; append to {}:\n{}", path.display(), new.join("\n"));
}

#[test]
fn a_change_that_old_peers_misread_is_seen() {
    let now = published();
    let line = "firstseen.producer.v1.Batch.sequence 1 uint64";
    assert!(now.contains(line), "a field's line is its name, number and type");
    assert!(now.contains("firstseen.producer.v1.Reason.REASON_FULL 1"));
    assert!(now.contains("firstseen.producer.v1.ObserveRequest.batch 2 .firstseen.producer.v1.Batch oneof message"));
}
