# shellcheck shell=bash
# ./dev pictures: the pictures of the pages, from their sources.

# Each keeps its source inside, by which tests/picture.rs sees that it was made of it: what dot draws differs from
# version to version.
cmd_pictures() {
    local source target
    need dot graphviz || exit
    for source in docs/pictures/*.dot; do
        target=${source%.dot}.svg
        dot -Tsvg "$source" | awk -v source="$source" '
            /<g id="graph0"/ {
                print "<metadata><![CDATA["
                while ((getline line < source) > 0) print line
                print "]]></metadata>"
            }
            { print }' >"$target.new" && mv "$target.new" "$target" || exit
        echo "$target"
    done
}
