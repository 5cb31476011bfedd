# bash completion for dvt. It needs only bash.

__dvt_complete()
{
    # Split the line into words at blanks only, because bash also splits at = : and @.
    local words=() line=$COMP_LINE word gap i at=0
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]} gap=${line%%[![:space:]]*}
        line=${line#"$gap"} line=${line#"$word"}
        if ((i == 0)) || [[ -n $gap ]]; then
            words+=("$word") at=$((${#words[@]} - 1))
        else
            words[at]+=$word
        fi
    done
    words=("${words[@]//[\"\']/}")

    local program out directive
    program=$(type -P -- "${words[0]/#\~/$HOME}") || program=dvt
    out=$("$program" {{.Request}} "${words[@]:1}" 2>/dev/null) || return
    directive=${out##*:} out=${out%:*}

    # readline replaces only its own idea of the word, $2, and keeps the text before it (lead).
    local typed=${words[at]} lead
    case $typed in -*=*) typed=${typed#*=} ;; esac
    lead=${typed%"$2"}
    local values=() says=() value text longest=0 cases
    cases=$(shopt -p nocasematch)
    shopt -s nocasematch
    while IFS=$'\t' read -r value text; do
        [[ -n $value && $value == "$typed"* ]] || continue
        value=${value#"$lead"}
        values+=("$value") says+=("$text")
        ((${#value} > longest)) && longest=${#value}
    done <<<"$out"
    eval "$cases"

    COMPREPLY=("${values[@]}")
    if ((${#values[@]} > 1)); then
        for ((i = 0; i < ${#values[@]}; i++)); do
            [[ -n ${says[i]} ]] || continue
            printf -v text '%-*s  (%s)' "$longest" "${values[i]}" "${says[i]}"
            COMPREPLY[i]=${text:0:${COLUMNS:-80} - 2}
        done
    fi
    if ((directive & {{.FilterDirs}})); then
        COMPREPLY=()
        while IFS= read -r value; do COMPREPLY+=("$value"); done < <(compgen -d -- "$2")
    fi
    if [[ $(type -t compopt) == builtin ]]; then
        ((directive & {{.NoSpace}})) && compopt -o nospace
        ((directive & {{.NoFileComp}})) && compopt +o default
        ((directive & {{.FilterDirs}})) && compopt -o filenames
    fi
    return 0
}

complete -o default -F __dvt_complete dvt
