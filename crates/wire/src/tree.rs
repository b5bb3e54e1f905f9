//! Converts trees of filters, and the places of filters in them, to and from protobuf messages.
//!
//! A decoded tree is within its limits. This module does not check whether such a tree is possible.

use firstseen_routing::{Branch, CutOff, FilterId, PlaceSpec, SlicingError, TREE_PLACES_MAX, TreeMode, TreeSpec};

use crate::limits::NAME_TEXT_BYTES_MAX;
use crate::map_error::{MapError, check_length};
use crate::proto::admin;
use crate::proto::producer as proto;

pub(crate) fn branch_message(branch: &Branch) -> proto::Branch {
    proto::Branch {
        root: branch.root.0,
        parent: branch.parent.map_or(0, |parent| parent.0),
        level: branch.level.into(),
        fold: branch.fold.into(),
        place: branch.place.clone(),
        mode: mode_message(branch.mode).into(),
        top_down: branch.top_down.into(),
        cut_off: cut_off_message(branch.cut_off).into(),
    }
}

pub(crate) fn branch(message: proto::Branch) -> Result<Branch, MapError> {
    check_length("branch.place", message.place.len(), NAME_TEXT_BYTES_MAX)?;
    Ok(Branch {
        root: FilterId(message.root),
        parent: (message.parent > 0).then_some(FilterId(message.parent)),
        level: small("branch.level", message.level)?,
        fold: small("branch.fold", message.fold)?,
        place: message.place,
        mode: mode(message.mode)?,
        top_down: small("branch.top_down", message.top_down)?,
        cut_off: cut_off(message.cut_off)?,
    })
}

fn small(field: &'static str, value: u32) -> Result<u8, MapError> {
    u8::try_from(value).map_err(|_| MapError::Unknown { field, value: value.into() })
}

/// Encodes the mode of a tree.
fn mode_message(mode: TreeMode) -> proto::TreeMode {
    match mode {
        TreeMode::Sparse => proto::TreeMode::Sparse,
        TreeMode::Dense => proto::TreeMode::Dense,
    }
}

/// Decodes the mode of a tree.
///
/// # Errors
/// Returns [`MapError::Unknown`] if the value is not defined.
fn mode(value: i32) -> Result<TreeMode, MapError> {
    match proto::TreeMode::try_from(value) {
        Ok(proto::TreeMode::Sparse) => Ok(TreeMode::Sparse),
        Ok(proto::TreeMode::Dense) => Ok(TreeMode::Dense),
        _ => Err(MapError::Unknown { field: "tree.mode", value: value.into() }),
    }
}

fn cut_off_message(cut_off: CutOff) -> proto::CutOff {
    match cut_off {
        CutOff::Undecided => proto::CutOff::Unspecified,
        CutOff::Local => proto::CutOff::Local,
    }
}

fn cut_off(value: i32) -> Result<CutOff, MapError> {
    match proto::CutOff::try_from(value) {
        Ok(proto::CutOff::Unspecified) => Ok(CutOff::Undecided),
        Ok(proto::CutOff::Local) => Ok(CutOff::Local),
        _ => Err(MapError::Unknown { field: "tree.cut_off", value: value.into() }),
    }
}

/// Encodes the specification of a place.
pub fn encode_place(place: &PlaceSpec) -> admin::TreePlace {
    admin::TreePlace {
        name: place.name.clone(),
        parent: place.parent.clone().unwrap_or_default(),
        fold: place.fold.into(),
        slicing: place.slicing.map(|slicing| slicing.to_string()).unwrap_or_default(),
        sites: place.sites.clone(),
    }
}

/// Encodes the specification of a tree, for a request to create it.
pub fn encode(tree: &TreeSpec) -> admin::Tree {
    let places = tree.places.iter().map(encode_place);
    admin::Tree {
        mode: mode_message(tree.mode).into(),
        places: places.collect(),
        top_down: tree.top_down.into(),
        cut_off: cut_off_message(tree.cut_off).into(),
    }
}

/// Decodes the specification of a tree from a request to create it.
///
/// # Errors
/// Returns a [`MapError`] that names the field.
pub fn decode(message: admin::Tree) -> Result<TreeSpec, MapError> {
    check_length("tree.places", message.places.len(), TREE_PLACES_MAX)?;
    let places = message.places.into_iter().map(decode_place).collect::<Result<_, _>>()?;
    Ok(TreeSpec {
        mode: mode(message.mode)?,
        cut_off: cut_off(message.cut_off)?,
        top_down: small("tree.top_down", message.top_down)?,
        places,
    })
}

/// Decodes the specification of a place.
///
/// # Errors
/// Returns a [`MapError`] that names the field.
pub fn decode_place(place: admin::TreePlace) -> Result<PlaceSpec, MapError> {
    let fold = small("tree.places.fold", place.fold)?;
    let slicing = match place.slicing.as_str() {
        "" => None,
        text => Some(text.parse().map_err(|error: SlicingError| MapError::Slicing(error.to_string()))?),
    };
    Ok(PlaceSpec {
        fold,
        slicing,
        name: place.name,
        parent: (!place.parent.is_empty()).then_some(place.parent),
        sites: place.sites,
    })
}
